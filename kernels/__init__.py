"""The arithmetic of linear transformers: functions on tensors, each folder an operator with its
reference.

step/ is the recurrence and attention/ the same over whole sequences; window/ is what a step reads of
an image, causal_conv/ adds what is near, categorical/ and pixel_logistics/ are what a step may
predict; codec/ makes whole numbers of that, by which images are coded. Each has a `reference.py`,
which is plain and never optimised: begin with that of step/. The kernels in triton/ compute what
torch's own operations do, and cpu/ is the whole step of a CPU. Images are bytes in raster order;
nothing here knows a configuration, a checkpoint or a request.

Letters: B batch, N sequence length, H heads, C key and query width (feature dimension), M value
width, K mixture components, S slots; s and z are the recurrent state of "Transformers are RNNs"
(Katharopoulos et al., ICML 2020), whose equations have their numbers beside the lines.
"""

import math

LN2 = math.log(2)  # nats in a bit
# Beyond any model of this kind: sizes of tensors, layers, bytes of an image.
MAX_WIDTH = 2**16
MAX_DEPTH = 2**10
LARGEST_IMAGE = 2**20
# Pixels that a causal convolution keeps beyond a row: the pixel itself,
# and two to the left of the one above.
BEYOND = 3
