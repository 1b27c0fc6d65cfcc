"""ModelConfig: sizes and options of a model, checked at construction and stored in config.json.

Frozen and strict: unknown, missing and wrong fields are errors. Letters: L layers, H
heads, C key width, M value width, K mixture components. A byte is one channel of one
pixel, in raster order, channels innermost. Positions, masks, random numbers and bits are
counted in bytes, whatever a step is.
"""

import re
import unicodedata
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from scanline.kernels import BEYOND, LARGEST_IMAGE, MAX_DEPTH, MAX_WIDTH
from scanline.kernels.feature_maps import feature_map

FORMAT = 5  # of a model directory; any other but those below is an error
LATER_FIELDS = {  # what an earlier format lacks
    2: {"neighbours": False, "mirrored": False, "class_biases": False},
    3: {"mirrored": False, "class_biases": False},
    4: {"class_biases": False},
}
STORED = {"causal_conv": "neighbours"}  # the names of fields in config.json, where these are others
READS = {"byte": "byte", "pixel": "window"}  # what a step reads, which config.json says besides
MAX_WAVES = 16  # beyond 8, a byte's waves repeat
MAX_CLASSES = 1000
# of a class, and characters
MAX_WORDS = 32
MAX_WORD = 256
TOKEN = re.compile(r"\w+|[^\w\s]")  # of a text: a word, or any other character
# combining marks in a row (UAX 15, Stream-Safe Text): normalising takes the square of their number
MAX_MARKS = 30


@dataclass(frozen=True)
class ModelConfig:
    """A linear-transformer image model (section 4.2).

    A step is a `byte`, which reads the previous byte through a table (the paper's form),
    or a whole `pixel`, which reads a window of painted pixels (`kernels/window`) through
    a linear layer and residual blocks.
    """

    height: int
    width: int
    channels: int
    layers: int
    heads: int
    key_width: int
    value_width: int
    feed_forward: int
    feature_map: str = "elu"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu"] = "gelu"
    embedding_join: Literal["sum", "concat"] = "sum"
    position: Literal["axial", "sincos"] = "axial"
    components: int = 10
    scale: Literal["exp", "elu"] = "exp"
    start_token: bool = True
    # probabilities of byte 0, without a start token
    first_byte_histogram: tuple[float, ...] | None = None
    step: Literal["byte", "pixel"] = "byte"
    predicts: Literal["logistics", "categorical", "pixel_logistics"] = "logistics"
    blocks: int = 0  # residual blocks between the window and the layers
    block_width: int = 0
    # of what each block and feed-forward reads: kernels/causal_conv/reference.py
    causal_conv: bool = False
    window_rows: int = 0  # pixels above, and to either side: see kernels/window/reference.py
    window_columns: int = 0
    window_centred: bool = False
    waves: int = 0
    wave_rows: int = 0
    wave_columns: int = 0
    outside: int = 0  # the byte of pixels beyond the border
    # Of each class the words that mean it, its name first. Label 0 is an image
    # without a class, k + 1 one of class k.
    classes: tuple[tuple[str, ...], ...] = ()
    class_biases: bool = False  # whether each block and feed-forward has a bias for each label
    # trained on mirrored images too: an image and its mirror image are of one class
    mirrored: bool = False

    def __post_init__(self) -> None:
        types = get_type_hints(ModelConfig)  # once, since it evaluates all annotations
        for field in fields(self):
            _check_type(stored_name(field.name), getattr(self, field.name), types[field.name])
        for name in (
            "height",
            "width",
            "layers",
            "heads",
            "key_width",
            "value_width",
            "feed_forward",
            "components",
        ):
            value = getattr(self, name)
            most = MAX_DEPTH if name == "layers" else MAX_WIDTH
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
            if value > most:
                raise ValueError(f"{name} must be at most {most}, not {value}")
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 (grey) or 3 (RGB), not {self.channels}")
        if max(self.model_width, self.heads * self.key_width) > MAX_WIDTH:
            raise ValueError(f"heads x width must be at most {MAX_WIDTH}, for keys and for values")
        if self.bytes > LARGEST_IMAGE:
            raise ValueError(f"an image must have at most {LARGEST_IMAGE} bytes, not {self.bytes}")
        feature_map(self.feature_map)
        _check_classes(self.classes)
        if self.class_biases and not self.classes:
            raise ValueError("class_biases needs a model with classes")
        if self.embedding_join == "concat" and self.model_width % 2:
            raise ValueError(
                f"a concatenated embedding needs an even width, not {self.model_width}"
            )
        self._check_step()
        if self.start_token != (self.first_byte_histogram is None):
            raise ValueError("a model has either a start token or a first_byte_histogram")
        if self.first_byte_histogram is not None:
            histogram = self.first_byte_histogram
            are_probabilities = len(histogram) == 256 and min(histogram) >= 0
            if not are_probabilities or not abs(sum(histogram) - 1) <= 1e-6:  # NaN is not
                raise ValueError("first_byte_histogram must hold 256 probabilities that sum to 1")

    def _check_step(self) -> None:
        """Raise ValueError where what a step is, reads and predicts do not fit each other."""
        if self.predicts == "pixel_logistics" and self.step != "pixel":
            raise ValueError("pixel_logistics are predicted by steps of a pixel")
        if self.predicts != "pixel_logistics" and self.step_bytes > 1:
            raise ValueError(
                f"a step of {self.step_bytes} bytes predicts pixel_logistics, not {self.predicts}"
            )
        sizes = (
            "blocks",
            "block_width",
            "window_rows",
            "window_columns",
            "waves",
            "wave_rows",
            "wave_columns",
        )
        if self.step == "byte":
            for name in (*sizes, "causal_conv", "window_centred", "outside"):
                if getattr(self, name):
                    raise ValueError(f"{stored_name(name)} needs a model that reads a window")
            return
        if self.position != "axial" or self.embedding_join != "sum" or not self.start_token:
            raise ValueError(
                "a model that reads a window has axial positions added to it, and predicts the first byte"
            )
        most = {"blocks": MAX_DEPTH, "block_width": MAX_WIDTH, "waves": MAX_WAVES}
        most["window_rows"] = min(self.height, MAX_DEPTH)
        most["window_columns"] = min(self.width, MAX_DEPTH)
        most |= {"wave_rows": self.window_rows, "wave_columns": self.window_columns}
        for name in sizes:
            value = getattr(self, name)
            is_needed = name.startswith("window") or (name == "block_width" and self.blocks > 0)
            least = 1 if is_needed else 0
            if not least <= value <= most[name]:
                raise ValueError(f"{name} must be from {least} to {most[name]}, not {value}")
        if not 0 <= self.outside <= 255:
            raise ValueError(f"outside must be a byte, not {self.outside}")

    @property
    def bytes(self) -> int:
        """N, the bytes of an image."""
        return self.height * self.width * self.channels

    @property
    def model_width(self) -> int:
        """Width of the residual stream, heads x value width."""
        return self.heads * self.value_width

    @property
    def step_bytes(self) -> int:
        """Bytes that one step paints."""
        return self.channels if self.step == "pixel" else 1

    @property
    def steps(self) -> int:
        """Steps that paint an image, without a first byte drawn from a histogram."""
        return (self.bytes - self.first) // self.step_bytes

    @property
    def first(self) -> int:
        """The first byte that the network predicts: 0 with a start token, else 1."""
        return 0 if self.start_token else 1

    @property
    def state_bytes_per_image(self) -> int:
        """Bytes of the state of one image in flight, float32; the same at every position."""
        sums = self.layers * self.heads * self.key_width * (self.value_width + 1)
        return 4 * (sums + self.convolutions * self.conv_pixels * self.model_width)

    @property
    def convolutions(self) -> int:
        """E, the causal convolutions of a step: one in every block and layer, or none."""
        return self.blocks + self.layers if self.causal_conv else 0

    @property
    def conv_pixels(self) -> int:
        """R, the pixels that a convolution keeps of each image."""
        return self.width + BEYOND

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(H, W) for grey, (H, W, 3) for colour: the shape of arrays in the API."""
        if self.channels == 1:
            return (self.height, self.width)
        return (self.height, self.width, self.channels)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The label of each word of each class, as `spaced` writes it, and as `plain` does where
        that is free."""
        as_written = {}
        for label, words in enumerate(self.classes, 1):
            for word in words:
                as_written[spaced(word)] = label
        in_lower_case = {plain(word): label for word, label in as_written.items()}
        return in_lower_case | as_written

    @cached_property
    def word_tree(self) -> dict[str, Any]:
        """The words of all classes, token by token in lower case; where one ends, the tree has the
        key ""."""
        root: dict[str, Any] = {}
        for word in self.labels:
            tree = root
            for token in TOKEN.findall(word):
                tree = tree.setdefault(token.lower(), {})
            tree[""] = {}
        return root

    def label_of(self, text: str) -> int:
        """Return the label of the class that a text names, in its capitals or else in any; 0 where
        it names none. ValueError for too many combining marks in a row."""
        return self.labels.get(spaced(text)) or self.labels.get(plain(text), 0)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class: the first of its words."""
        return tuple(words[0] for words in self.classes)

    @property
    def can_be_guided(self) -> bool:
        """Whether distributions with a class and without can be mixed."""
        return bool(self.classes)

    @property
    def size(self) -> str:
        """The size as the API writes it, WIDTHxHEIGHT."""
        return f"{self.width}x{self.height}"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of config.json: every field, what a step reads, and the format."""
        data: dict[str, Any] = {"format": FORMAT}
        for name, value in asdict(self).items():
            data[stored_name(name)] = value
            if name == "step":
                data["reads"] = READS[value]
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelConfig":
        """Return the configuration of config.json's content; ValueError with one sentence for
        another format or an unknown, missing or wrong field."""
        data = dict(data)
        if "format" not in data:
            raise ValueError(
                "missing key 'format', which the configuration of each model of Scanline has"
            )
        written = data.pop("format")
        if isinstance(written, int) and written > FORMAT:
            raise ValueError(
                f"format {written} is newer than this program, which reads format {FORMAT}"
            )
        if isinstance(written, int) and written in LATER_FIELDS:
            data = LATER_FIELDS[written] | data
        elif written != FORMAT:
            raise ValueError(f"format must be {FORMAT}, not {written!r}")
        names = {stored_name(field.name): field.name for field in fields(cls)}
        known = [*names, "reads"]
        unknown = sorted(set(data) - set(known))
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}")
        for name in known:
            if name not in data:
                raise ValueError(f"missing key {name!r}")
        reads = data.pop("reads")
        _check_type("reads", reads, Literal["byte", "window"])
        if (data["step"] == "pixel") != (reads == "window"):
            raise ValueError("a step of a pixel reads a window, and a step of a byte reads a byte")
        return cls(**{names[key]: _as_tuples(value) for key, value in data.items()})


def stored_name(field: str) -> str:
    """Return the name of a field in config.json."""
    return STORED.get(field, field)


def plain(text: str) -> str:
    """Return a text as words are compared, in lower case; ValueError for too many combining marks
    in a row."""
    return spaced(text).lower()


# a request asks for its prompt several times, milliseconds each where it is long
@lru_cache(maxsize=4)
def spaced(text: str) -> str:
    """Return a text in NFC, with one space between words; ValueError for too many combining marks
    in a row."""
    marks = "".join(filter(_begins_with_mark, set(text)))
    if marks and re.search(f"[{marks}]{{{MAX_MARKS + 1}}}", text):
        raise ValueError(f"more than {MAX_MARKS} combining marks in a row")
    return " ".join(unicodedata.normalize("NFC", text).split())


def _begins_with_mark(character: str) -> bool:
    """Return whether a character is a combining mark, or is decomposed into one and others."""
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


def _as_tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of its lists, at any depth."""
    if isinstance(value, list):
        return tuple(_as_tuples(item) for item in value)
    return value


def _check_classes(classes: tuple[tuple[str, ...], ...]) -> None:
    """Raise ValueError where there are too many classes, or where a word cannot stand for one of
    them."""
    if len(classes) > MAX_CLASSES:
        raise ValueError(f"a model has at most {MAX_CLASSES:,} classes, not {len(classes):,}")
    known: set[str] = set()
    for words in classes:
        if not 1 <= len(words) <= MAX_WORDS:
            raise ValueError(
                f"each class needs from 1 to {MAX_WORDS} words, its name first, not {len(words):,}"
            )
        for word in words:
            if len(word) > MAX_WORD or not word.isprintable():
                raise ValueError(
                    f"a class has words of at most {MAX_WORD} printable characters, not {word[:99]!r}"
                )
            plain(word)
            lower = word if len(word) == 1 else word.lower()  # A and a are two classes
            if not word or word != lower.strip():
                raise ValueError(
                    f"the words of classes are lower case, without spaces at their ends, not {word!r}"
                )
            if word in known:
                raise ValueError(
                    f"the word {word!r} stands for more than one class, or twice for one"
                )
            known.add(word)


def _check_type(name: str, value: object, wanted: Any) -> None:
    """Raise ValueError where a JSON value is not of a field's type. A bool is not an int; an int is
    a float."""
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted) or not isinstance(value, str):
            raise ValueError(f"{name} must be one of {', '.join(get_args(wanted))}, not {value!r}")
    elif name == "classes":
        if not isinstance(value, tuple) or not all(map(_are_words, value)):
            raise ValueError(f"classes must be a list of lists of words, not {value!r}")
    elif wanted in (int, str, bool):
        if type(value) is not wanted:
            raise ValueError(f"{name} must be of type {wanted.__name__}, not {value!r}")
    elif value is not None or type(None) not in get_args(wanted):
        item = (int, float) if name == "first_byte_histogram" else (int,)
        if not isinstance(value, tuple) or any(type(x) not in item for x in value):
            raise ValueError(f"{name} must be a list of numbers, not {value!r}")


def _are_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
