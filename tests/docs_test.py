"""The documentation builds without a warning, and can be read without a network."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
pytest.importorskip("mkdocs", reason="the documentation's tools are not installed: pip install '.[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built documentation."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        patch.chdir(ROOT)
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


def page(site, name):
    """A page's HTML."""
    return (site / name).read_text(encoding="utf-8")


def test_pages_fetch_nothing_from_the_network(site):
    element = r"<(?:script|img|iframe|link rel=\"(?:stylesheet|preconnect)\")"
    fetched = re.compile(element + r"[^>]*(?:src|href)=\"(?:https?:)?//")
    for path in site.rglob("*.html"):
        assert not fetched.search(path.read_text(encoding="utf-8")), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_flags_and_hyperparameters_are_in_tables(site):
    commands = page(site, "reference/commands.html")
    for flag in ("phrase_table", "units", "moses_ini_out", "beam_size", "weights", "max_tokens", "backends", "label"):
        assert f"<code>--{flag}</code>" in commands, flag
    hyperparameters = page(site, "reference/hyperparameters.html")
    for name in ("embedding_dim", "clip_norm", "shortlist", "length_penalty"):
        assert f"<code>{name}</code>" in hyperparameters, name
    assert "a whole number, 1 or more" in hyperparameters
    assert "500</code> (Cho et al., 2014, supplement (v1))" in hyperparameters


def test_a_page_that_is_generated_says_in_the_repository_where_it_is_built(site):
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path: text for path, text in texts.items() if re.search(r"^<!-- \w+: ", text, re.MULTILINE)}
    assert len(pages) > 20
    for path, text in pages.items():
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert f"`make docs` builds it whole:\n> `site/{name}`." in text, path
        assert "In the repository" not in page(site, name), name


def test_links_of_a_page_lead_to_files_in_the_repository_and_to_pages_in_the_site(site):
    for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s:]+)[)#]", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), (path, link)
    assert 'href="architecture.html"' in page(site, "index.html")
    assert 'href="../../architecture.html"' in page(site, "reference/api/models.html")
    assert 'href="../notebooks/own_model.html"' in page(site, "guides/python.html")


def test_docstrings_are_rendered_by_their_sections(site):
    layers = page(site, "reference/api/layers.html")
    cell = layers[layers.index('id="keras_encdec.layers.GRUCell"') :]
    cell = cell[: cell.index('id="keras_encdec.layers.LeftSingularVectors"')]
    for text in ("Call arguments", "Parameters:", "Returns:", "Examples:", "<strong>Reference:</strong>"):
        assert text in cell, text
    assert '<span class="gp">&gt;&gt;&gt; </span>' in cell  # a doctest is a block of code
    assert "r = sigmoid(" in cell


EXPORTED = {
    "models": ["Decoder", "Encoder", "TensorSpec", "RNNEncoderDecoder", "RNNEncoderDecoderConfig"],
    "scoring": ["score_file", "TextScorer", "ModelDirectory"],
    "decoding": ["generate_file", "BeamSampler", "register_sampler"],
    "trainers": ["train", "TrainingConfig", "TrainingData"],
    "export": ["export_model", "verify_export", "score_file_with_server"],
    "formats": ["register_format", "PhraseTableReader"],
    "smt": ["rerank"],
    "tuning": ["tune", "evaluate", "mert"],
    "configuration": ["hyperparameter", "InputError"],
}


@pytest.mark.parametrize("name", EXPORTED)
def test_api_pages_name_what_packages_export(site, name):
    html = page(site, f"reference/api/{name}.html")
    for symbol in EXPORTED[name]:
        assert re.search(rf'id="keras_encdec\.[\w.]*\b{symbol}"', html), symbol


def test_pages_from_the_top_of_the_checkout_are_in_the_site(site):
    assert "The decoder contract" in page(site, "architecture.html")
    assert "Add a sampler" in page(site, "contributing.html")
    assert (site / "pictures" / "model.svg").exists()


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "CHANGELOG.md"])
def test_links_between_files_of_the_checkout_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text):
        assert not target or (ROOT / target).exists(), target


def test_the_search_works_in_pages_on_a_disk(site):
    from headless_browser import headless_browser  # skips the test where there is no browser
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with headless_browser() as browser:
        browser.get((site / "index.html").as_uri())
        browser.find_element(By.CSS_SELECTOR, "label[for=__search].md-header__button").click()
        browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("max_unknown")
        found = "a.md-search-result__link"
        WebDriverWait(browser, 20).until(lambda shown: shown.find_elements(By.CSS_SELECTOR, found))
        links = [link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, found)]
    assert any("reference/commands.html" in link for link in links), links


def test_a_table_of_four_columns_fits_on_a_phone(site):
    from headless_browser import headless_browser, show

    with headless_browser() as browser:
        show(browser, 375)
        browser.get((site / "guides" / "commands.html").as_uri())
        widths = "const table = document.querySelector('.md-typeset__scrollwrap');"
        shown, whole = browser.execute_script(f"{widths} return [table.clientWidth, table.scrollWidth]")
    assert 0 < whole <= shown


def test_the_picture_of_commands_has_letters_to_read_on_a_phone(site):
    from headless_browser import headless_browser, show

    pictures = {}
    with headless_browser() as browser:
        for width in (390, 768, 1280):
            show(browser, width)
            browser.get((site / "guides" / "commands.html").as_uri())
            picture = "const shown = document.querySelector('figure img'); await shown.decode();"
            name, *sizes = browser.execute_script(
                f"{picture} return [shown.currentSrc, shown.clientWidth, shown.naturalWidth]"
            )
            pictures[width] = name.rpartition("/")[2]
            assert sizes[0] > 0.8 * sizes[1]  # made for 9 points, so 7 at least
    assert pictures == {390: "commands-narrow.svg", 768: "commands.svg", 1280: "commands.svg"}


def test_colours_follow_the_system_when_it_changes(site):
    from headless_browser import headless_browser, show

    with headless_browser() as browser:
        show(browser, 1200, "light")
        browser.get((site / "index.html").as_uri())
        schemes = []
        for scheme in ("light", "dark"):
            show(browser, 1200, scheme)
            browser.refresh()  # the theme keeps the choice of the first visit
            schemes.append(browser.execute_script("return document.body.dataset.mdColorScheme"))
    assert schemes == ["default", "slate"]


def test_axe_finds_no_serious_violation_in_light_and_dark_colours(site):
    from headless_browser import AXE, headless_browser, serious_violations, show

    if not AXE.exists():
        pytest.skip("no axe-core: npm install axe-core in the checkout, or set NODE_PATH")
    with headless_browser() as browser:
        for scheme, name in (("light", "default"), ("dark", "slate")):
            show(browser, 1200, scheme)
            for path in ("guides/report.html", "guides/python.html"):
                browser.get((site / path).as_uri())
                browser.execute_script("localStorage.clear()")
                browser.refresh()
                assert browser.execute_script("return document.body.dataset.mdColorScheme") == name
                assert not serious_violations(browser), (path, scheme)
