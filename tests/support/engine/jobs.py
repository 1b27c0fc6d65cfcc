"""Jobs of tasks, for requests of the grey test model that a test makes by hand."""

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.tasks.paint import PaintTask
from scanline.model.tasks.score import ScoreTask
from scanline.server.engine.job import Job
from tests.support.small_models import GREY


class PaintJob(Job):
    task: PaintTask

    def __init__(self, request, config=GREY):
        super().__init__(request, PaintTask(request, config))


class ScoreJob(Job):
    """A job of bits, which are its task's."""

    task: ScoreTask

    def __init__(self, request, config=GREY):
        super().__init__(request, ScoreTask(ModelInfo(config), len(request.images), 0))
