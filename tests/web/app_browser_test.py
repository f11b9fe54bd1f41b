"""The page in a real browser, served as users have it."""

import contextlib
import socket
import threading

import pytest
import uvicorn
from eagerly import uncompiled
from headless_browser import AXE, headless_browser, serious_violations, show
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from toy_explorer import toy_explorer

from keras_encdec.web import create_app

WICKED = "<script>document.title='run'</script>"


@contextlib.contextmanager
def running(explorer):
    """The address of a server of an Explorer, in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(explorer), lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the page of a model with attention and gates."""
    path = tmp_path_factory.mktemp("models") / "attention"
    with uncompiled(), running(toy_explorer(path, cell="gru", attention="global")) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as browser:
        yield browser


def opened(browser, address, width, scheme="light"):
    show(browser, width, scheme)
    browser.get(address)
    settled(browser, "le chat la maison")


def settled(browser, source):
    """Waits until the page has the responses to its requests for a typed source."""
    shown = (
        "return document.getElementById('source').value === arguments[0] && "
        "document.getElementById('status').textContent.startsWith('Best of') && "
        "document.querySelector('#gates .answer td') !== null && !document.querySelector('[aria-busy=true]')"
    )
    WebDriverWait(browser, 30, 0.05).until(lambda _: browser.execute_script(shown, source))


def typed(browser, text, field="source"):
    if field == "source":
        browser.execute_script("document.getElementById('status').textContent = ''")
    place = browser.find_element(By.ID, field)
    place.clear()
    place.send_keys(text)


def texts(browser, selector):
    code = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    return browser.execute_script(code, selector)


def test_typed_text_is_translated_scored_and_escaped(browser, address):
    opened(browser, address, 1400)
    typed(browser, f"le chat {WICKED}")
    settled(browser, f"le chat {WICKED}")
    targets = texts(browser, "#translate .text")
    assert len(targets) == 5 and targets[0] in texts(browser, "#status")[0]
    assert texts(browser, "#translate ol.targets > li:nth-child(2) li bdi") == [*targets[1].split(), "(end)"]
    assert all("nats" in numbers for numbers in texts(browser, "#translate .numbers"))
    assert texts(browser, "#read .unknown") == [WICKED] == texts(browser, "#gates table:first-child th[scope=row]")[2:3]
    assert texts(browser, "#attention thead th")[1:] == ["le", "chat", WICKED, "(end)"]
    assert texts(browser, "#sample .answer p")[0].startswith("50 samples, ")
    typed(browser, WICKED, "target")
    WebDriverWait(browser, 30, 0.05).until(lambda _: texts(browser, "#score .unknown") == [WICKED])
    assert f"The pair: {WICKED}" in texts(browser, "#attended option")
    assert browser.title == "Try the model" and not browser.find_elements(By.CSS_SELECTOR, "main script")
    settled(browser, f"le chat {WICKED}")
    neighbour = browser.find_element(By.CSS_SELECTOR, "#neighbours td button")
    phrase = neighbour.text
    neighbour.click()
    settled(browser, phrase)
    typed(browser, "l")
    browser.find_element(By.ID, "source").send_keys("\b")
    WebDriverWait(browser, 30, 0.05).until(lambda _: texts(browser, "#status") == ["Type a phrase."])
    assert not texts(browser, "#translate .text")
    assert browser.get_log("browser") == []


def test_perplexities_have_three_digits(browser, address):
    opened(browser, address, 1400)
    shown = {
        1: "1.00",
        12.345: "12.3",
        999.4: "999",
        999.6: "1,000",
        1234: "1,230",
        98765: "98,800",
        1e6: "> 1,000,000",
    }
    assert browser.execute_script("return arguments[0].map(threeDigits)", list(shown)) == list(shown.values())


# Answers about "la" come late, whether they are still wanted or not.
LATE = """
const timely = window.fetch;
window.fetch = async (address, {signal, ...options}) => {
  const answer = await timely(address, options);
  if (JSON.parse(options.body).source === "la") await new Promise((done) => setTimeout(done, 700));
  window.late = (window.late ?? 0) + (JSON.parse(options.body).source === "la");
  return answer;
};
"""


def test_outdated_responses_are_dropped(browser, address):
    opened(browser, address, 1400)
    browser.execute_script(LATE)
    typed(browser, "la")
    WebDriverWait(browser, 30, 0.02).until(lambda _: texts(browser, "#translate [aria-busy=true]"))
    browser.find_element(By.ID, "source").send_keys(" chat")
    WebDriverWait(browser, 30, 0.05).until(lambda _: browser.execute_script("return window.late === 4"))
    browser.execute_async_script("setTimeout(arguments[0], 100)")  # in which it would be shown
    settled(browser, "la chat")
    assert texts(browser, "#attention thead th")[1:] == ["la", "chat", "(end)"]
    assert texts(browser, "#gates table:first-child th[scope=row]") == ["la", "chat", "(end)"]


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_nothing_is_cut_off_and_axe_finds_no_serious_violation(browser, address, width, scheme):
    opened(browser, address, width, scheme)
    narrow, whole = browser.execute_script("const e = document.documentElement; return [e.clientWidth, e.scrollWidth]")
    assert whole <= narrow
    if not AXE.exists():
        pytest.skip("no axe-core: npm install axe-core in the checkout, or set NODE_PATH")
    assert serious_violations(browser) == []
