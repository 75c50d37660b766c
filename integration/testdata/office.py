"""Opens a document in LibreOffice, adds a line and saves it as its Save command does.

Arguments: the document, the text, a folder for LibreOffice's own files. Prints what
Save promises to others: the lock file while the document is open, none afterwards.
"""

import os
import subprocess
import sys
import time

import uno

path, text, profile = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
lock = os.path.join(os.path.dirname(path), ".~lock.%s#" % os.path.basename(path))
pipe = "svcfs-%d" % os.getpid()
office = subprocess.Popen(
    ["soffice", "-env:UserInstallation=file://" + profile, "--headless", "--norestore", "--accept=pipe,name=%s;urp;" % pipe])

local = uno.getComponentContext()
resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
while True:
    try:
        remote = resolver.resolve("uno:pipe,name=%s;urp;StarOffice.ComponentContext" % pipe)
        break
    except Exception:
        if office.poll() is not None:
            raise
        time.sleep(0.05)

desktop = remote.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", remote)
document = desktop.loadComponentFromURL(uno.systemPathToFileUrl(path), "_blank", 0, ())
print("locked" if os.path.exists(lock) else "not locked", "read-only" if document.isReadonly() else "writable")
document.Text.insertString(document.Text.End, text, False)
document.store()
document.close(True)
print("still locked" if os.path.exists(lock) else "unlocked")
try:
    desktop.terminate()
except Exception:
    pass  # the connection ends with the office
office.wait()
