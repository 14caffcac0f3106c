"""The HTML report of a model: one self-contained file for screens, phones and print.

``page`` assembles it and needs matplotlib; ``formatting`` is shared with the terminal and needs nothing.
"""
