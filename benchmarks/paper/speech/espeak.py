"""eSpeak NG, a free speech synthesiser, as a library: text to samples and to phonemes.

The library and its voices come with the wheel `espeakng-loader` (extra `speech`). It keeps global state, so there
is one instance in a process; it is not thread-safe. Its functions are those of espeak-ng/speak_lib.h.
"""

import ctypes
import re
from functools import cache

import numpy as np

from scanline.model.extras import install_command

SYNCHRONOUS, UTF8 = 2, 1  # espeak_AUDIO_OUTPUT of a callback, without a device; espeakCHARS_UTF8
RATE, PITCH = 1, 3  # espeak_PARAMETER
SEPARATOR = "_"  # between phonemes; words are separated by spaces
STRESS = "',%="  # marks before a vowel


def missing() -> str | None:
    """Return why there is no synthesiser here; None where there is one."""
    try:
        Espeak.instance()
    except (ImportError, OSError, RuntimeError) as error:
        return f"eSpeak NG cannot be loaded ({install_command('speech')}): {error}"
    return None


class Espeak:
    """sample_rate: in Hz."""

    def __init__(self) -> None:
        import espeakng_loader

        self.library = ctypes.CDLL(espeakng_loader.get_library_path())
        self.sample_rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
        if self.sample_rate <= 0:
            raise RuntimeError(f"espeak_Initialize returned {self.sample_rate}")
        self.library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self.library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self._samples: list[bytes] = []
        self._callback = callback(self._keep)  # held: the library keeps only its address
        self.library.espeak_SetSynthCallback(self._callback)

    @classmethod
    @cache
    def instance(cls) -> "Espeak":
        """Return the one of this process."""
        return cls()

    def speak(self, text: str, voice: str, words_per_minute: int = 170, pitch: int = 50) -> np.ndarray:
        """Return samples [n] int16 of an English text.

        voice: a language and a variant, as en-us+f2; pitch: 0 to 99. ValueError for a language that it does not have;
        an unknown variant is its default voice.
        """
        if self.library.espeak_SetVoiceByName(voice.encode()):
            raise ValueError(f"eSpeak NG has no voice {voice!r}")
        for parameter, value in ((RATE, words_per_minute), (PITCH, pitch)):
            self.library.espeak_SetParameter(parameter, value, 0)
        data = text.encode()
        self._samples.clear()
        status = self.library.espeak_Synth(data, len(data) + 1, 0, 0, 0, UTF8, None, None)
        if status:
            raise RuntimeError(f"espeak_Synth returned {status}")
        return np.frombuffer(b"".join(self._samples), np.int16)

    def phonemes(self, text: str, voice: str) -> list[str]:
        """Return eSpeak's mnemonics of the phonemes of a text as that voice pronounces it, without stress."""
        if self.library.espeak_SetVoiceByName(voice.encode()):
            raise ValueError(f"eSpeak NG has no voice {voice!r}")
        rest = ctypes.c_char_p(text.encode())
        clauses = []
        while rest.value:
            found = self.library.espeak_TextToPhonemes(ctypes.byref(rest), UTF8, ord(SEPARATOR) << 8)
            clauses.append((found or b"").decode())
        names = (name.strip(STRESS) for name in " ".join(clauses).replace(SEPARATOR, " ").split())
        return [name for name in names if re.search(r"[A-Za-z0-9@]", name)]  # what has none is a pause

    def _keep(self, samples: "ctypes._Pointer[ctypes.c_short]", count: int, events: int | None) -> int:
        if samples and count:
            self._samples.append(ctypes.string_at(samples, 2 * count))
        return 0  # go on
