"""The arithmetic of linear transformers: functions on tensors.

Knows no image, no checkpoint, no request. Letters: B batch, N sequence length, H heads,
C key and query width (feature dimension), M value width; s and z are the recurrent state of
"Transformers are RNNs" (Katharopoulos et al., ICML 2020).
"""
