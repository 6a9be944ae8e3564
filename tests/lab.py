"""JupyterLab in a real browser, as a reader has it: a server of our own, pages, clicks.

The browser is the system's Chromium, driven by Playwright. Nothing leaves the machine: the
server listens on loopback, has settings of its own, and ends with the tests.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOKEN = "lab"  # noqa: S105 (it guards a server that lives for seconds, on loopback)
FLAGS = """
    --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
""".split()
PATIENCE = 60_000  # milliseconds until a page that does not come is a failure
SCREEN = {"width": 1280, "height": 1600}
NOTEBOOK = ".jp-NotebookPanel"
IDLE = f"{NOTEBOOK} .jp-Notebook-ExecutionIndicator[data-status=idle]"
READY = """async () => {
    const widget = window.jupyterapp.shell.currentWidget;
    await widget.context.ready;
    await widget.sessionContext.ready;
    return widget.sessionContext.session?.kernel?.status === "idle";
}"""
ERRORS = ".jp-OutputArea [data-mime-type*='stderr'], .jp-OutputArea [data-mime-type*='error']"


def chromium() -> str | None:
    """The system's browser, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@contextmanager
def serving(folder: Path, own: Path) -> Iterator[str]:
    """JupyterLab on ``folder``, with its settings in ``own``; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = "CONFIG_DIR DATA_DIR RUNTIME_DIR LAB_SETTINGS_DIR LAB_WORKSPACES_DIR".split()
    places = {f"JUPYTER{'' if n.startswith('LAB') else '_'}{n}": str(own / n) for n in names}
    env = {k: v for k, v in os.environ.items() if k not in ("LAI_ANSWER", "OPENAI_API_KEY")}
    env |= {**places, "PYTHONPATH": str(folder.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    options = [f"--port={port}", f"--IdentityProvider.token={TOKEN}", "--ip=127.0.0.1"]
    options += ["--KernelManager.transport_encryption=auto"]  # else the kernel warns in a cell
    options += ["--no-browser", "--allow-root", "--expose-app-in-browser", str(folder)]
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (own / "server.log").open("wb") as said:
        server = subprocess.Popen(
            command, env=env, stdout=said, stderr=said, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/lab?token={TOKEN}", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def _wait_for(address: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(240):
        assert server.poll() is None, "the server ended; see server.log"
        try:
            urllib.request.urlopen(address, timeout=5).close()  # noqa: S310 (loopback)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise AssertionError("the server does not answer")


class Page:
    """One notebook on the screen."""

    def __init__(self, browser: Any, address: str, notebook: str, theme: str = "Light") -> None:
        self.page = browser.new_page(viewport=SCREEN)
        self.page.set_default_timeout(PATIENCE)
        self.page.goto(f"{address}/lab/tree/{notebook}?token={TOKEN}&reset")
        self.page.wait_for_selector(IDLE)
        self.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        self.page.wait_for_function(READY)

    def command(self, name: str, **arguments: str) -> None:
        """Do what a menu entry does, without waiting for its end."""
        call = "([name, given]) => { window.jupyterapp.commands.execute(name, given) }"
        self.page.evaluate(call, [name, arguments])

    def run_all(self) -> None:
        """Run all cells; they may stop at a question."""
        self.command("notebook:run-all-cells")

    def button(self, label: str) -> Any:
        """The newest button of that label that can be pressed."""
        return self.page.locator(f".jp-OutputArea button:not([disabled]):text-is('{label}')").last

    def press(self, label: str, evidence: str = "") -> None:
        """Click it, once it is there; for a verdict, with what was seen."""
        button = self.button(label)
        button.wait_for()
        if evidence:
            self.page.locator(".jp-OutputArea input[type=text]:not([disabled])").last.fill(evidence)
        button.click()

    def choice(self, label: str) -> Any:
        """The first button of that label, in view: cells far off the screen are not there."""
        button = self.page.locator(f".jp-OutputArea button:text-is('{label}')").first
        for place in range(0, 20_000, 700):
            if button.count():
                break
            scroll = "place => document.querySelector('.jp-WindowedPanel-outer').scrollTo(0, place)"
            self.page.evaluate(scroll, place)
            self.page.wait_for_timeout(200)
        button.scroll_into_view_if_needed()
        return button

    def press_first(self, label: str) -> None:
        """Click the first button of that label."""
        self.choice(label).click()

    def slider(self) -> Any:
        """The handle of the only slider, in view."""
        handle = self.page.locator(".jp-OutputArea .widget-slider .noUi-handle").last
        handle.scroll_into_view_if_needed()
        handle.focus()
        return handle

    def beside_slider(self, text: str) -> Any:
        """The place beside the slider that says ``text``."""
        box = self.page.locator(".jp-OutputArea .widget-vbox:has(.widget-slider)").last
        return box.get_by_text(text).last

    def wait(self) -> None:
        """Until nothing runs any more."""
        self.page.wait_for_function(
            "() => ![...document.querySelectorAll('.jp-InputPrompt')]"
            ".some(prompt => prompt.textContent.includes('*'))"
        )
        self.page.wait_for_selector(IDLE)

    def shown(self) -> str:
        """What can be read on the screen now."""
        return str(self.page.locator(NOTEBOOK).inner_text())

    def outputs(self) -> str:
        """All outputs of the notebook as the kernel sent them."""
        found = self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON()"
        )
        cells = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
        return "\n".join(_shown(out) for cell in cells for out in cell["outputs"])

    def screenshot(self, path: Path) -> bytes:
        """A picture of what is on the screen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return bytes(self.page.screenshot(path=path))

    def errors(self) -> list[str]:
        """What went to stderr, and what ended in an error."""
        return [str(found.inner_text()) for found in self.page.locator(ERRORS).all()]

    def close(self) -> None:
        """Shut the kernel down and leave."""
        self.command("kernelmenu:shutdown")
        self.page.close()


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "".join(text)
