"""The law of painting ahead: image by image and step by step, never optimised.

`plan` chooses the steps of a pass and writes the guesses that they read; the network and the
sampling kernels run in between, as if each row were an image at its own position; `accept` keeps
the steps up to and with the first that differs from its guess, and drops the others.

A step is a pixel of C bytes. Where the neighbours of a pixel have one value, the guess is that
value: it is flat. A full pass has guesses elsewhere, too: what the last pass drew there behind a
wrong guess, else the left neighbour. The rows of a pass are packed, image after image; both slots
of a guided image have the same steps, and each step of the two is a pair of rows 2i and 2i + 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Images:
    """What a pass reads and writes of S slots of N bytes; all are changed in place but known,
    partner and code_range."""

    images: Tensor  # [S, N] uint8
    known: Tensor  # [S, N] bool
    position: Tensor  # [S] int64: the byte that comes next; N: the image is done
    bits: Tensor  # [S] float64
    known_bits: Tensor  # [S] float64
    partner: Tensor  # [S] int64: not 0 where the image is guided; below 0 in its second slot
    code_range: Tensor  # [S] int64: not 0 where it is painted from a code, one step a pass
    # What the last pass drew behind a wrong guess: of the bytes before `drawn_to`.
    drawn: Tensor  # [S, N] uint8
    drawn_to: Tensor  # [S] int64


@dataclass(frozen=True)
class Plan:
    """A pass of B images of up to W steps, in R rows."""

    slots: Tensor  # [B] int64: -1 for no image; of a guided one both, as 2i and 2i + 1, and first
    stops: Tensor  # [B] int64: no step begins at it or behind it
    # The others are results. Of an image:
    begin: Tensor  # [B] int64: its position when the pass begins
    count: Tensor  # [B] int64: its rows
    first: Tensor  # [B] int64: the row of its first step
    stride: Tensor  # [B] int64: rows from a step to the next
    painted: Tensor  # [B] int64: steps that are kept
    guesses: Tensor  # [B, W, C] uint8: of its steps but the last
    # Of a row:
    row_slots: Tensor  # [R] int64: the slot; -1: nothing is run
    at: Tensor  # [R] int64: the first byte of the step

    @classmethod
    def of(
        cls, images: int, rows: int, widest: int, step_bytes: int, device: torch.device | str
    ) -> "Plan":
        """Return a plan of no images."""
        assert rows >= images
        slots, stops, begin, count, first, stride, painted = torch.zeros(
            7, images, dtype=torch.int64, device=device
        )
        row_slots, at = torch.zeros(2, rows, dtype=torch.int64, device=device)
        guesses = torch.zeros(images, widest, step_bytes, dtype=torch.uint8, device=device)
        slots.fill_(-1)
        return cls(slots, stops, begin, count, first, stride, painted, guesses, row_slots, at)

    def row(self, image: int, step: int) -> int:
        """Return the row of a step of an image."""
        return int(self.first[image]) + step * int(self.stride[image])


# Of the neighbours of a pixel that are painted: rows above it, columns to its left.
NEIGHBOURS = ((0, 1), (1, 1), (1, 0), (1, -1))


def flat_guess(image: Tensor, pixel: int, width: int) -> Tensor | None:
    """Return the value that the neighbours of a pixel of an image [pixels, C] share, 0 of the
    first pixel; None where they differ."""
    y, x = divmod(pixel, width)
    values = []
    for up, left in NEIGHBOURS:
        column = x - left
        if up <= y and 0 <= column < width:
            values.append(image[pixel - up * width - left])
    if not values:
        return torch.zeros_like(image[0])
    if all(torch.equal(value, values[0]) for value in values):
        return values[0]
    return None


def plan(plan: Plan, images: Images, width: int, full: bool) -> None:
    """Write the results of a plan but `painted`, IN PLACE, and its guesses into the images, which
    are `width` pixels wide. With fewer rows than are wanted, all images have the same limit."""
    limit = plan.guesses.shape[1]
    guesses = []
    wanted = []
    for number in range(len(plan.slots)):
        of_image = _guessed(plan, images, number, width, full)
        may_step = _may_step(plan, images, number)
        guesses.append(of_image)
        wanted.append(len(of_image) + may_step)
    while sum(min(rows, limit) for rows in wanted) > len(plan.at):
        limit -= 1
    plan.row_slots.fill_(-1)
    plan.at.zero_()
    before = 0  # rows of the images before this one
    for number, slot in enumerate(plan.slots.tolist()):
        count = min(wanted[number], limit)
        plan.count[number] = count
        plan.begin[number] = 0
        plan.first[number] = before
        plan.stride[number] = 1
        if slot >= 0:
            plan.begin[number] = images.position[slot]
            if images.partner[slot] != 0:
                plan.stride[number] = 2
                is_second = number % 2
                plan.first[number] -= is_second * (count - 1)
        before += count
        for step in range(count):
            row = plan.row(number, step)
            at = _place(plan, number, step)
            plan.row_slots[row] = slot
            plan.at[row] = at.start
            if step + 1 < count:
                guess = guesses[number][step]
                plan.guesses[number, step] = guess
                images.images[slot, at] = guess


def _stop(plan: Plan, images: Images, number: int) -> int:
    length = images.images.shape[1]
    return min(length, int(plan.stops[number]))


def _may_step(plan: Plan, images: Images, number: int) -> bool:
    slot = int(plan.slots[number])
    return slot >= 0 and int(images.position[slot]) < _stop(plan, images, number)


def _guessed(plan: Plan, images: Images, number: int, width: int, full: bool) -> list[Tensor]:
    """Return the guesses of the steps of an image but the last."""
    slot = int(plan.slots[number])
    guesses: list[Tensor] = []
    if not _may_step(plan, images, number) or int(images.code_range[slot]) != 0:
        return guesses
    _, widest, size = plan.guesses.shape
    stop = _stop(plan, images, number)
    position = int(images.position[slot])
    image = images.images[slot].clone()
    pixels = image.view(-1, size)
    while len(guesses) + 1 < widest:
        begin = position + len(guesses) * size
        at = slice(begin, begin + size)
        if at.stop >= stop:
            break
        known = images.known[slot, at]
        guess = flat_guess(pixels, begin // size, width)
        if guess is None and (full or bool(known.all())):
            pixel = begin // size
            guess = torch.zeros_like(pixels[0])
            if pixel % width:
                guess = pixels[pixel - 1]
            if begin < images.drawn_to[slot]:
                guess = images.drawn[slot, at]
        if guess is None:
            break
        present = images.images[slot, at]
        guess = torch.where(known, present, guess)
        image[at] = guess
        guesses.append(guess)
    return guesses


def accept(plan: Plan, images: Images, costs: Tensor, row_bits: Tensor, totals: Tensor) -> None:
    """Keep what the rows of a pass have painted into the images, up to and with the first step
    that differs from its guess, and add its cost, IN PLACE. costs: [R, C] float64 of each byte;
    row_bits: [R] float64 of each step, NaN where an image's are to be.

    To totals [4] int64 are added the passes of images, their rows, the steps painted and the wrong
    guesses, of a guided image those of its first slot.
    """
    size = plan.guesses.shape[2]
    plan.painted.zero_()
    for number, slot in enumerate(plan.slots.tolist()):
        count = int(plan.count[number])
        if count == 0:
            continue
        is_right = True
        painted = 0
        for step in range(count):
            at = _place(plan, number, step)
            row = plan.row(number, step)
            known = images.known[slot, at]
            drawn = images.images[slot, at]
            if not is_right:
                images.drawn[slot, at] = drawn
                images.images[slot, at] = drawn * known  # guesses leave no trace
                continue
            painted += 1
            for cost, is_known in zip(costs[row], known, strict=True):
                images.bits[slot] += cost
                if is_known:
                    images.known_bits[slot] += cost
            if torch.isnan(row_bits[row]):
                images.bits[slot] = float("nan")
            is_right = torch.equal(drawn, plan.guesses[number, step])
        begin = int(plan.begin[number])
        images.drawn_to[slot] = begin + count * size
        images.position[slot] = begin + painted * size
        plan.painted[number] = painted
        if images.partner[slot] >= 0:
            totals[0] += 1
            totals[1] += count
            totals[2] += painted
            totals[3] += painted < count


def _place(plan: Plan, number: int, step: int) -> slice:
    size = plan.guesses.shape[2]
    begin = int(plan.begin[number]) + step * size
    return slice(begin, begin + size)
