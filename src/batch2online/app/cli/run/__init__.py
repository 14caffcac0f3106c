"""The parts of a run: prepared rows, the loop over them, the curve, the result, the files of ``--out``."""
