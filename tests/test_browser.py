"""The course in JupyterLab, in a real browser: run all, click, stop, look.

Screenshots go to the folder that LAI_SCREENSHOTS names, else to pytest's own.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import Page, chromium, serving

from lai.course.run_notebooks import copy_course

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
if chromium() is None:
    pytest.skip("no Chromium here: apt-get install chromium", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
SEEN = "看过 audit.log，有一行"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab on a copy of the course."""
    own = tmp_path_factory.mktemp("lab")
    with serving(copy_course(ROOT, own / "course"), own) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    from lab import FLAGS

    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where pictures are kept."""
    return Path(os.environ.get("LAI_SCREENSHOTS") or tmp_path)


WALKS = [
    ("03_2_tools_and_approval", "Light", ["Approve"] * 2, "You: approved (", 2),
    ("03_2_tools_and_approval", "Dark", ["Reject"] * 2, "You: rejected (", 2),
    ("04_2_ledger", "Dark", ["Approve"] * 4, "You: approved (", 4),
    ("04_2_ledger", "Light", ["Reject"] * 4, "You: rejected (", 4),
    ("04_4_promises_and_limits", "Light", ["Leave it unknown"], "You: left unknown (", 1),
]


@pytest.mark.parametrize(("name", "theme", "answers", "said", "times"), WALKS)
def test_every_answer_is_a_way_through(
    browser: Any,
    address: str,
    shots: Path,
    name: str,
    theme: str,
    answers: list[str],
    said: str,
    times: int,
) -> None:
    """Whatever a person clicks, the notebook runs to its end and says who decided."""
    page = Page(browser, address, f"{name}.ipynb", theme)
    page.run_all()
    for answer in answers:
        page.press(answer)
    page.wait()
    page.screenshot(shots / f"{name}-{answers[0]}-{theme}.png")
    assert page.errors() == []
    assert page.outputs().count(said) == times
    page.close()


def test_a_verdict_and_a_slider(browser: Any, address: str, shots: Path) -> None:
    """In 04_3 a click without evidence leaves the question open, and the slider moves by keys."""
    page = Page(browser, address, "04_3_recovery.ipynb", "Dark")
    page.run_all()
    page.press("It happened")
    page.page.get_by_text("Please say first").wait_for()
    page.press("It happened", SEEN)
    page.wait()
    assert page.errors() == []
    assert "You: it happened (run_bash" in page.outputs()
    assert SEEN in page.outputs()
    handle = page.slider()
    for left, row in [(8, "running, so interrupted"), (2, "no attempt"), (-6, "publish")]:
        for _ in range(abs(left)):
            handle.press("ArrowLeft" if left > 0 else "ArrowRight")
        page.beside_slider(row).wait_for()
    page.screenshot(shots / "slider-Dark.png")
    page.close()


def test_stop_ends_a_waiting_cell(browser: Any, address: str) -> None:
    """The Stop button ends a cell that waits for a person; running it again asks again."""
    page = Page(browser, address, "03_2_tools_and_approval.ipynb")
    page.run_all()
    page.button("Approve").wait_for()
    page.command("notebook:interrupt-kernel")
    page.wait()
    assert "KeyboardInterrupt: stopped" in page.outputs()
    assert "Not answered: write_file" in page.outputs()
    page.run_all()
    page.press("Approve")
    page.press("Approve")
    page.wait()
    assert page.errors() == []
    page.close()


def test_a_prediction_by_keyboard(browser: Any, address: str, shots: Path) -> None:
    """In the self-test a prediction is made with Tab and space, revealed, and counted once."""
    page = Page(browser, address, "99_self_test.ipynb")
    page.run_all()
    page.wait()
    assert page.errors() == []
    page.choice("ask: a person is asked: may it run?").focus()
    page.page.keyboard.press("Space")
    page.press_first("Reveal")
    page.page.get_by_text("✓ right: ask").wait_for()
    page.screenshot(shots / "self-test-Light.png")
    page.close()
