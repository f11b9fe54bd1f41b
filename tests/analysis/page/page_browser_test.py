"""The report's page in a real browser: Chromium without a window."""

import io

import numpy as np
import pytest
from headless_browser import AXE, headless_browser, serious_violations, show
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from keras_encdec.analysis import Preferences, ScoreComparison, TablePair, Vectors
from keras_encdec.analysis.page.map_sections import map_section
from keras_encdec.analysis.page.page import page
from keras_encdec.analysis.page.score_sections import best_targets_section, length_section, score_section
from keras_encdec.analysis.vectors import word_groups

WICKED = "</script><script>document.title='run'</script><img src=x onerror=document.title='run'>"
LONG = "\U0001f431" * 40  # each character is two units of JavaScript's strings


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A page with figures of 100,000 pairs and of a few words."""
    rng = np.random.default_rng(0)
    probabilities, scores = np.exp(-rng.exponential(1, 100_000)), -rng.exponential(3, 100_000)
    pairs = [TablePair(f"source {i % 999}", f"target {i}", p, 1) for i, p in enumerate(probabilities)]
    vectors = Vectors([WICKED, *(f"word{i}" for i in range(58)), LONG], rng.normal(0, 1, (60, 4)).astype("float32"))
    sections = [
        score_section(ScoreComparison.of(pairs, scores), len(pairs)),
        map_section("words", "Words", "Words.", vectors, rng.normal(0, 9, (60, 2)), word_groups(vectors.names)),
        best_targets_section({"rare": [Preferences("a source", [("target", 0.5, 0.25)], 1.0)]}),
        length_section("lengths", "pairs", [(1, 2)] * 20, np.full(20, -3.0)),
    ]
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_bytes(page("A page", {"Words": 60}, ["A notice."], sections))
    return file


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as browser:
        yield browser


@pytest.fixture(params=[1400, 390], ids=["wide", "narrow"])
def opened(browser, path, request):
    """The browser with the page in it, in a wide window and in a narrow one."""
    show(browser, request.param)
    browser.get(path.as_uri())
    for name in ("scores", "words"):
        painted(browser, name)
    return browser


def figure(browser, name):
    return browser.find_element(By.ID, f"scatter-{name}")


def painted(browser, name):
    """How many points of a figure are in view, once it is painted."""
    found = WebDriverWait(browser, 20).until(lambda _: figure(browser, name).get_attribute("data-painted"))
    return int(found)


def settled(browser, name, condition):
    return WebDriverWait(browser, 20).until(lambda _: condition(painted(browser, name)))


def script(browser, code, *arguments):
    return browser.execute_script(code, *arguments)


def test_figures_are_drawn_and_nothing_is_cut_off(opened):
    assert painted(opened, "words") == 60
    first = painted(opened, "scores")
    assert 99_000 < first < 100_000, "without the lowest scores"
    for button, number in (("All", 100_000), ("Most", first)):
        figure(opened, "scores").find_element(By.XPATH, f".//button[.='{button}']").click()
        assert settled(opened, "scores", lambda count, number=number: count == number)
    colours = "return new Set(arguments[0].getContext('2d').getImageData(0, 0, 300, 300).data).size"
    for canvas in opened.find_elements(By.TAG_NAME, "canvas"):
        assert script(opened, colours, canvas) > 3
    width, whole = script(opened, "const e = document.documentElement; return [e.clientWidth, e.scrollWidth]")
    assert whole <= width
    assert opened.title == "A page" and [entry for entry in opened.get_log("browser")] == []


def test_search_finds_and_shows_text_as_text(opened):
    words = figure(opened, "words")
    field = words.find_element(By.CSS_SELECTOR, "input")
    field.send_keys("ONERROR")
    [found] = words.find_elements(By.CSS_SELECTOR, ".found button")
    assert found.text == WICKED and "1 of 60 match" in words.find_element(By.TAG_NAME, "output").text
    found.click()
    near = words.find_elements(By.CSS_SELECTOR, "div .found button")
    assert len(near) == 8 and near[0].text.startswith("word")
    before = painted(opened, "words")
    assert before < 60, "it is zoomed in"
    near[0].click()
    assert words.find_element(By.TAG_NAME, "output").text.startswith("word")
    assert opened.title == "A page"


def test_a_long_name_is_cut_between_characters(browser, path):
    show(browser, 1400)
    browser.get(path.as_uri())
    painted(browser, "words")
    draw = "CanvasRenderingContext2D.prototype.fillText = function (text) { window.drawn.push(text); }"
    script(browser, f"window.drawn = []; {draw}")
    figure(browser, "words").find_element(By.CSS_SELECTOR, "input").send_keys(LONG[0])
    found = "return window.drawn.find((text) => text.endsWith('…') && text.codePointAt(0) === arguments[0])"
    label = WebDriverWait(browser, 20).until(lambda _: script(browser, found, ord(LONG[0])))
    assert label == LONG[:33] + "…"


def test_search_lists_exact_matches_first_and_shows_more_on_request(opened):
    words = figure(opened, "words")
    words.find_element(By.CSS_SELECTOR, "input").send_keys("word1")
    listed = words.find_elements(By.CSS_SELECTOR, ".found button")
    assert [button.text for button in listed] == ["word1", *(f"word{i}" for i in range(10, 20))]
    scores = figure(opened, "scores")
    scores.find_element(By.CSS_SELECTOR, "input").send_keys("source 7")
    listed = scores.find_elements(By.CSS_SELECTOR, ".found button")
    assert len(listed) == 13 and all(button.text.startswith("source 7 →") for button in listed[:12])
    assert listed[12].text.startswith("Show more (")
    listed[12].click()
    assert len(scores.find_elements(By.CSS_SELECTOR, ".found button")) == 61
    assert script(opened, "return document.activeElement.textContent").startswith("source 7 →")


def test_figures_are_dark_where_the_page_is_and_captions_are_not_one_letter_wide(opened):
    frames = "return [...document.querySelectorAll('caption')].map((one) => one.getBoundingClientRect())"
    boxes = script(opened, frames)
    assert boxes and all(box["width"] > 200 and box["height"] < 80 for box in boxes)
    picture = opened.find_element(By.CSS_SELECTOR, "figure.picture img")
    script(opened, "arguments[0].scrollIntoView()", picture)
    whole = []
    for scheme in ("dark", "light"):
        show(opened, script(opened, "return innerWidth"), scheme)
        whole.append(Image.open(io.BytesIO(picture.screenshot_as_png)).convert("RGB").getpixel((3, 3)))
    assert whole == [(0x1E, 0x23, 0x28), (255, 255, 255)]


def test_zoom_by_buttons_keys_and_wheel(opened):
    words = figure(opened, "words")
    words.find_element(By.CSS_SELECTOR, "button[aria-label='Zoom in']").click()
    assert settled(opened, "words", lambda count: count < 60)
    words.find_element(By.CSS_SELECTOR, "button[aria-label='Show all points']").click()
    assert settled(opened, "words", lambda count: count == 60)
    canvas = words.find_element(By.TAG_NAME, "canvas")
    canvas.send_keys("++", Keys.ARROW_LEFT)
    assert settled(opened, "words", lambda count: count < 60)
    canvas.send_keys("0")
    assert settled(opened, "words", lambda count: count == 60)
    script(opened, "arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", canvas)
    wheel = {"type": "mouseWheel", "deltaX": 0, "deltaY": -600, **middle(opened, canvas)}
    opened.execute_cdp_cmd("Input.dispatchMouseEvent", wheel)
    assert settled(opened, "words", lambda count: count < 60)
    canvas.send_keys("0")
    for name in "ABC"[: len(words.find_elements(By.CSS_SELECTOR, "button[aria-label^='Zoom to']"))]:
        words.find_element(By.CSS_SELECTOR, f"button[aria-label='Zoom to region {name}']").click()
    assert settled(opened, "words", lambda count: count < 60)


def middle(browser, canvas):
    frame = script(browser, "return arguments[0].getBoundingClientRect().toJSON()", canvas)
    return {"x": frame["x"] + frame["width"] / 2, "y": frame["y"] + frame["height"] / 2}


def test_pointing_at_a_point_names_it_and_dragging_moves(opened):
    scores = figure(opened, "scores")
    canvas = scores.find_element(By.TAG_NAME, "canvas")
    script(opened, "arguments[0].scrollIntoView({block: 'center'})", canvas)
    box = canvas.size
    corner = int(0.47 * box["width"]) - 12, 40 - box["height"] // 2
    ActionChains(opened).move_to_element_with_offset(canvas, *corner).perform()
    tip = scores.find_element(By.CSS_SELECTOR, ".tip")
    assert tip.is_displayed() and "source " in tip.text and " → target " in tip.text
    assert "table −" in tip.text and ", model −" in tip.text
    assert script(opened, "return arguments[0].getBoundingClientRect().right <= innerWidth", tip)
    ActionChains(opened).drag_and_drop_by_offset(canvas, 0, box["height"] // 3).perform()
    settled(opened, "scores", lambda count: count < 99_000)


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: npm install axe-core in the checkout, or set NODE_PATH")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(opened, scheme):
    show(opened, script(opened, "return innerWidth"), scheme)
    figure(opened, "words").find_element(By.CSS_SELECTOR, "input").send_keys("word1")
    assert not serious_violations(opened)
