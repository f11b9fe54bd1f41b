// What the theme leaves out for readers who use a keyboard or a screen reader.
"use strict";

document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

// What scrolls has to take the focus, so that arrow keys scroll it. The theme removes this again from code while the
// mouse is elsewhere.
function keepFocusable(element) {
  if (element.scrollWidth > element.clientWidth && element.tabIndex !== 0) {
    element.tabIndex = 0;
  }
}
const seen = new WeakSet();
function watch() {
  for (const element of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (!seen.has(element)) {
      seen.add(element);
      new MutationObserver(() => keepFocusable(element)).observe(element, {attributeFilter: ["tabindex"]});
      new ResizeObserver(() => keepFocusable(element)).observe(element);
    }
  }
}
watch();
new MutationObserver(watch).observe(document.body, {childList: true, subtree: true}); // the theme wraps wide tables later
