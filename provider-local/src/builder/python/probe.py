"""Says what the base's Python is and has, one fact a line. Arguments: the file of certificates, then modules."""
import sys

print("version %d.%d.%d" % sys.version_info[:3])
print("executable " + sys.executable)
for name in sys.argv[2:]:
    try:
        __import__(name)
    except Exception:
        print("missing " + name)
try:
    import pip

    print("pip " + pip.__version__)
except Exception:
    pass
try:
    with open(sys.argv[1], "rb"):
        print("certificates yes")
except OSError:
    pass
