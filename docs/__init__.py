"""The documentation: pages written by hand in `pages/`, a reference that `reference` makes of the code, and `first_hour`, which does what the tutorial says."""
