"""Looks for files of a package with the standard library alone, where the installer would look.

    get FOLDER FILE SHA256   puts the file into the folder, if it has this digest
    look NAME VERSION        says which files there are of a version
    digest NAME FILE         says the SHA-256 of a file

The last line that it prints is its answer: a word, then what belongs to it.
"""
import base64
import hashlib
import html.parser
import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

LIMIT = 64 << 20
SECONDS = 30
TRIES = 3


class Connection(Exception):
    """A place that does not answer."""


class Refused(Exception):
    """A place that wants to know who asks."""


def words(name):
    return os.environ.get(name, "").split()


def is_set(name):
    return os.environ.get(name, "").lower() not in ("", "0", "false", "no", "off", "n", "f")


def host_of(url):
    return urllib.parse.urlsplit(url).hostname or "a file"


def context_for(url):
    context = ssl.create_default_context()
    place = os.environ.get("PIP_CERT", "")
    if place:
        context.load_verify_locations(**{"capath" if os.path.isdir(place) else "cafile": place})
    if os.environ.get("PIP_CLIENT_CERT"):
        context.load_cert_chain(os.environ["PIP_CLIENT_CERT"])
    parts = urllib.parse.urlsplit(url)
    if {parts.hostname, "%s:%s" % (parts.hostname, parts.port)} & set(words("PIP_TRUSTED_HOST")):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def request_for(url, user, accept):
    parts = urllib.parse.urlsplit(url)
    if "@" in parts.netloc:
        user, netloc = parts.netloc.rsplit("@", 1)
        url = urllib.parse.urlunsplit(parts._replace(netloc=netloc))
    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "provider-local"})
    if user:
        name, _, password = user.partition(":")
        plain = urllib.parse.unquote(name) + ":" + urllib.parse.unquote(password)
        # Not sent on to wherever the answer leads.
        request.add_unredirected_header(
            "Authorization", "Basic " + base64.b64encode(plain.encode()).decode()
        )
    return request


def read(url, user="", accept="*/*"):
    """The bytes, the kind and the final address of a page or file; None where there is nothing."""
    request = request_for(url, user, accept)
    handlers = [urllib.request.HTTPSHandler(context=context_for(url))]
    if os.environ.get("PIP_PROXY"):
        proxy = os.environ["PIP_PROXY"]
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    opener = urllib.request.build_opener(*handlers)
    for left in reversed(range(TRIES)):
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                data = answer.read(LIMIT + 1)
                if len(data) > LIMIT:
                    raise Connection("%s: the answer is too long" % host_of(url))
                return data, answer.headers.get_content_type(), answer.geturl()
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            if error.code in (401, 403, 407):
                raise Refused(host_of(url))
            reason = "it answers %d" % error.code
        except urllib.error.URLError as error:
            if isinstance(error.reason, FileNotFoundError):
                return None
            reason = str(error.reason)
        except (OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
        if not left:
            raise Connection("%s: %s" % (host_of(url), reason))
        time.sleep(TRIES - left)


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            self.targets += [value for name, value in attributes if name == "href" and value]


def files_of_page(url):
    """The names and addresses of the files that a page names."""
    parts = urllib.parse.urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
    page = read(url, user, accept)
    if page is None:
        return
    data, kind, final = page
    if kind.endswith("+json"):
        targets = [file["url"] for file in json.loads(data.decode())["files"]]
    else:
        links = Links()
        links.feed(data.decode("utf-8", "replace"))
        targets = links.targets
    for target in targets:
        address = urllib.parse.urldefrag(urllib.parse.urljoin(final, target)).url
        name = urllib.parse.unquote(urllib.parse.urlsplit(address).path.rsplit("/", 1)[-1])
        same = host_of(address) == parts.hostname
        yield name, address, user if same else ""


def files_of_link(link):
    if "://" not in link:
        link = "file://" + urllib.request.pathname2url(link)
    if link.startswith("file://"):
        path = urllib.request.url2pathname(urllib.parse.urlsplit(link).path)
        if os.path.isdir(path):
            for name in sorted(os.listdir(path)):
                yield name, "file://" + urllib.request.pathname2url(os.path.join(path, name)), ""
            return
        if not path.endswith((".html", ".htm")):
            if os.path.exists(path):
                yield os.path.basename(path), link, ""
            return
    yield from files_of_page(link)


def page_of_index(index, package):
    page = index.rstrip("/") + "/" + package + "/"
    path = urllib.request.url2pathname(urllib.parse.urlsplit(page).path)
    if page.startswith("file://") and os.path.isfile(os.path.join(path, "index.html")):
        page += "index.html"
    return page


def places(package):
    for link in words("PIP_FIND_LINKS"):
        yield files_of_link(link)
    if not is_set("PIP_NO_INDEX"):
        for index in words("PROVIDER_INDEXES"):
            yield files_of_page(page_of_index(index, package))


def all_files(package):
    """All files, place by place, and at the end the trouble that there was with places."""
    trouble = None
    for place in places(package):
        try:
            yield from place
        except (Connection, Refused) as error:
            trouble = trouble or error
    if trouble:
        raise trouble


def get(folder, file, digest):
    other = ""
    for name, address, user in all_files(re.split("[-_]", file)[0].lower()):
        if name != file:
            continue
        answer = read(address, user)
        found = hashlib.sha256(answer[0]).hexdigest() if answer else ""
        if found == digest:
            with open(os.path.join(folder, file), "wb") as target:
                target.write(answer[0])
            return "done " + file
        other = other or found
    return "mismatch %s %s" % (digest, other) if other else "none"


def normal(name):
    return re.sub("[-_.]+", "-", name).lower()


def plain(version):
    return re.sub("([.]0)+$", "", version.lower())


def is_of(file, package, version):
    """Whether the name of a file is that of this version."""
    if file.endswith(".whl"):
        parts = file[: -len(".whl")].split("-")
    else:
        parts = re.sub("([.]tar)?[.][a-z0-9]+$", "", file).rsplit("-", 1)
    return len(parts) > 1 and normal(parts[0]) == normal(package) and plain(parts[1]) == plain(version)


def look(package, version):
    found = {name for name, _, _ in all_files(package) if is_of(name, package, version)}
    return "files " + " ".join(sorted(found)[:6]) if found else "none"


def digest(package, file):
    for name, address, user in all_files(package):
        answer = read(address, user) if name == file else None
        if answer:
            return "digest " + hashlib.sha256(answer[0]).hexdigest()
    return "none"


try:
    print({"get": get, "look": look, "digest": digest}[sys.argv[1]](*sys.argv[2:]))
except Connection as error:
    print("connection %s" % error)
except Refused as error:
    print("refused %s" % error)
