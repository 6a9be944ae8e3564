"""Files that somebody else runs or obeys later: approving the text approves that too.

A write to ``.git/hooks/pre-commit`` or ``Makefile`` looks like any other and runs at the
next commit or ``make``. The table names who does it. It is a help to whoever reads a
preview, not a fence: a file that is missing here can be run as well.

It does not touch the disk. Names are compared without case, as some disks do.
"""

from fnmatch import fnmatchcase

# A pattern for the end of a path ("*" stands for any text, slashes too), and who runs the file.
RUNS_LATER: tuple[tuple[str, str], ...] = (
    (".git/*", "git"),
    (".gitmodules", "git"),
    (".gitattributes", "git"),
    (".husky/*", "git"),
    (".pre-commit-config.yaml", "git"),
    (".github/workflows/*", "the CI system"),
    (".gitlab-ci.yml", "the CI system"),
    (".vscode/*", "the editor"),
    (".idea/*", "the editor"),
    (".cursor/*", "the editor"),
    (".devcontainer/*", "the editor"),
    (".claude/*", "an agent"),
    ("agents.md", "an agent"),
    ("claude.md", "an agent"),
    (".mcp.json", "an agent"),
    (".envrc", "the shell"),
    (".bashrc", "the shell"),
    (".bash_profile", "the shell"),
    (".profile", "the shell"),
    (".zshrc", "the shell"),
    ("makefile", "make"),
    ("gnumakefile", "make"),
    ("justfile", "just"),
    ("dockerfile", "docker"),
    ("package.json", "npm"),
    (".npmrc", "npm"),
    (".yarnrc.yml", "yarn"),
    ("conftest.py", "pytest"),
    ("pytest.ini", "pytest"),
    ("tox.ini", "tox"),
    ("noxfile.py", "nox"),
    ("setup.py", "pip"),
    ("setup.cfg", "pip"),
    ("pyproject.toml", "pip"),
    ("sitecustomize.py", "python"),
    ("usercustomize.py", "python"),
    ("*.pth", "python"),
    ("build.rs", "cargo"),
    (".cargo/*", "cargo"),
    ("cmakelists.txt", "cmake"),
    (".ssh/*", "ssh"),
)


def runs_later(path: str) -> str:
    """Who runs or obeys the file at ``path`` later; empty if nobody is known to."""
    folded = f"/{path.casefold()}"
    found = (who for pattern, who in RUNS_LATER if fnmatchcase(folded, f"*/{pattern}"))
    return next(found, "")
