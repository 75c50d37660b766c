"""Emblems and a menu for files in mounts of svcfs, in Nautilus and Nemo.

It reads the extended attributes user.svcfs.state and user.svcfs.ref of files in those mounts, and
nothing of their content. Elsewhere it does nothing.
"""

import os
import time

import gi

API = "Nautilus"  # packaging puts the name of the file manager here
VERSIONS = {"Nautilus": ("4.0", "4.0"), "Nemo": ("3.0", "3.0")}  # of the file manager, of Gdk
gi.require_version(API, VERSIONS[API][0])  # another version is another interface: it raises ValueError
gi.require_version("Gdk", VERSIONS[API][1])

from gi.repository import Gdk, Gio, GLib, GObject  # noqa: E402

FileManager = getattr(__import__("gi.repository", fromlist=[API]), API)

EMBLEMS = {"pending": "svcfs-pending", "staged": "svcfs-pending", "cached": "svcfs-cached", "failed": "svcfs-failed"}
QUESTIONS = (  # name, label, command
    ("why", "Why", ["why"]),
    ("versions", "Versions", ["history"]),
    ("members", "Members", ["group", "members"]),
    ("reference", "Copy reference", ["ls", "--ref"]),
)
MOUNTS_LAST = 2  # seconds for which the list of mounts is believed


class Mounts:
    """The folders on which svcfs is mounted, as the kernel tells; no mount is asked."""

    def __init__(self):
        self.until, self.folders = 0.0, ()

    def hold(self, path):
        now = time.monotonic()
        if now >= self.until:
            self.until, self.folders = now + MOUNTS_LAST, tuple(self.read())
        return any(path.startswith(folder + b"/") for folder in self.folders)

    @staticmethod
    def read():
        with open("/proc/self/mountinfo", "rb") as lines:
            for line in lines:
                before, _, after = line.partition(b" - ")
                if after.startswith(b"fuse.svcfs "):
                    # Octal escapes stand for blanks, backslashes and ends of lines.
                    parts = before.split(b" ")[4].split(b"\\")
                    yield parts[0] + b"".join(bytes([int(p[:3], 8)]) + p[3:] for p in parts[1:])


def path_of(file):
    """The path of a local file as bytes, else None."""
    if file.get_uri_scheme() != "file":
        return None
    path = file.get_location().get_path()
    return os.fsencode(path) if path else None


def attribute(path, name):
    try:
        return os.getxattr(path, b"user.svcfs." + name, follow_symlinks=False).decode("utf-8", "replace")
    except OSError:
        return ""


def copy(text):
    display = Gdk.Display.get_default()
    if hasattr(display, "get_clipboard"):  # GTK 4
        display.get_clipboard().set_content(Gdk.ContentProvider.new_for_value(text))
        return
    from gi.repository import Gtk

    Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD).set_text(text, -1)


class Svcfs(GObject.GObject, FileManager.InfoProvider, FileManager.MenuProvider):
    def __init__(self):
        super().__init__()
        self.mounts = Mounts()

    def update_file_info(self, file):
        path = path_of(file)
        if path and not file.is_directory() and self.mounts.hold(path):
            emblem = EMBLEMS.get(attribute(path, b"state"))
            if emblem:
                file.add_emblem(emblem)

    def get_file_items(self, *args):  # Nemo gives its window first
        files = args[-1]
        path = path_of(files[0]) if len(files) == 1 else None
        if not path or not self.mounts.hold(path):
            return []
        top = FileManager.MenuItem(name="Svcfs::Top", label="svcfs", tip="", icon="svcfs")
        menu = FileManager.Menu()
        top.set_submenu(menu)
        for question, label, command in QUESTIONS:
            if question in ("versions", "reference") and files[0].is_directory():
                continue
            item = FileManager.MenuItem(name="Svcfs::" + question, label=label, tip="", icon="")
            item.connect("activate", self.ask, command, path)
            menu.append_item(item)
        return [top]

    def get_background_items(self, *_):
        return []

    def ask(self, _item, command, path):
        if command[0] == "ls" and attribute(path, b"ref"):
            copy(attribute(path, b"ref"))
            return
        try:
            Gio.Subprocess.new(["svcfs", *command, "--notify", "--", os.fsdecode(path)], Gio.SubprocessFlags.NONE)
        except GLib.Error as failed:
            print("svcfs:", failed.message)
