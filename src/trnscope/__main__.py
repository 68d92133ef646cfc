"""`python -m trnscope`."""

import sys

from trnscope.commands.main import main

sys.exit(main())
