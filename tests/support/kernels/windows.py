"""Windows of each kind, with waves and without."""

from scanline.kernels.window import Window

WINDOWS = {
    "grey": Window(5, 4, 1, 2, 3, waves=3, wave_rows=1, wave_columns=2, outside=7),
    "colour": Window(4, 6, 3, 1, 2, outside=128, centred=True),
    "both": Window(3, 5, 3, 3, 1, waves=8, wave_rows=2, wave_columns=1, outside=255, centred=True),
    "one row": Window(1, 3, 1, 1, 1, centred=True),
    "one row of waves": Window(1, 3, 1, 1, 1, waves=2, wave_columns=1, centred=True),
    "both, waves of rows": Window(
        3, 5, 3, 3, 1, waves=8, wave_rows=2, wave_columns=0, outside=128, centred=True
    ),
}
