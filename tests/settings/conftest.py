from pathlib import Path

import pytest

from tests.settings.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
