"""The report of a run: one HTML file that needs nothing else, for screens, phones and paper.

``page`` assembles it and needs matplotlib; ``text`` holds what the terminal shares with it and needs nothing.
"""
