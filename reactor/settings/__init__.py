"""One frozen tree of settings, made of layers, with the origin of every value."""

from reactor.settings.tree import Settings
from reactor.settings.values import Secret, Url

__all__ = ["Secret", "Settings", "Url"]
