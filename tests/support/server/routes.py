"""The addresses of the API that work is posted to."""

GENERATIONS = "/v1/images/generations"
EDITS = "/v1/images/edits"
LIKELIHOODS = "/v1/images/likelihoods"
CLASSIFICATIONS = "/v1/images/classifications"
CODES = "/v1/images/codes"
DECODINGS = "/v1/images/decodings"
STEPS = "/v1/images/steps"
