"""The HTML report of a model: one self-contained file for screens, phones and print.

``page`` assembles it, ``charts`` describes and draws its charts; ``formatting`` is shared with the terminal.
"""
