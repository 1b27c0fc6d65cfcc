"""Configurations of the two models that most tests paint with: not square, and longer than the steps of one tick."""

from tests.support import small_models

GREY = small_models.config(height=7, width=5, layers=1)
COLOUR = small_models.config(height=3, width=4, channels=3)
