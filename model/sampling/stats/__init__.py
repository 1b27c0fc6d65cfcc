"""Statistics of an engine: counters, histograms, shares of its time, and the
tick length that follows from them.
"""
