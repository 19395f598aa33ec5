"""The tests mirror the tree; `parts/` starts the real servers they need, `cases/` runs the given inputs with their right answers."""
