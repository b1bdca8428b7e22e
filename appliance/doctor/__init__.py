"""What is wrong with a machine, why it matters, and the command that mends it.

`state` judges one look at the machine (`machine/watch.py`): health takes from it what is wrong. The
other files add advice, which health does not tell. `examination` is all of it in order. This room
knows no logs and no topics.
"""
