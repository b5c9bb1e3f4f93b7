from spin import spin
import pkg.mod, space.part
for file, name, text in [
    ('/tmp/ipykernel_47/273.py', '__main__', 'def train(): spin()\ntrain()'),
    ('/build/machine/part.py', 'pkg.part', 'def built(): spin()\nbuilt()'),
    ('<string>', 'plugin', 'def made(): spin()\nmade()'),
]:
    exec(compile(text, file, 'exec'), {'__name__': name, 'spin': spin})
spin()
