"""The arithmetic of linear transformers: functions on tensors, each folder an operator with its reference.

attention/, step/ and mixture/ have a `reference.py`, which is plain and never optimised; the kernels in triton/ compute
what torch's own operations do, and cpu/ is the whole byte step of a CPU. The mixture's anchors and the embedding know
images as bytes in raster order; nothing here knows a configuration, a checkpoint or a request.

Letters: B batch, N sequence length, H heads, C key and query width (feature dimension), M value width, K mixture
components, S slots; s and z are the recurrent state of "Transformers are RNNs" (Katharopoulos et al., ICML 2020).
"""
