"""Work done side by side, results in order."""

import collections


def in_order(executor, function, items, ahead):
    """Calls a function on items in an executor and yields the results in the items' order.

    Args:
        executor: `concurrent.futures.Executor`.
        function: callable of one item.
        items: iterable, read as far as needed.
        ahead: int. Items given to the executor before the first result is waited for.

    Yields:
        what the function returns.
    """
    pending = collections.deque()
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
