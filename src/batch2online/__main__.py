"""``python -m batch2online`` is the command ``batch2online``."""

from batch2online.app.cli import main

if __name__ == "__main__":
    main()
