"""A person's browser: browser.py CA LOGIN URL. It signs in with LOGIN and agrees to everything."""

import html.parser
import http.cookiejar
import ssl
import sys
import urllib.parse
import urllib.request

authority, login, url = sys.argv[1:]


class Forms(html.parser.HTMLParser):
    """The forms of a page: address, and fields with their values."""

    def __init__(self):
        super().__init__()
        self.forms = []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form":
            self.forms.append((attributes.get("action", ""), {}))
        elif tag == "input" and self.forms and attributes.get("name"):
            self.forms[-1][1].setdefault(attributes["name"], attributes.get("value", ""))


opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)),
    urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
)
for _ in range(10):
    answer = opener.open(url, timeout=20) if isinstance(url, str) else opener.open(*url, timeout=20)
    page = answer.read().decode()
    parser = Forms()
    parser.feed(page)
    if not parser.forms:
        print(page)
        break
    action, fields = parser.forms[0]
    if "login" in fields:
        fields.update(login=login, password="any")
    address = urllib.parse.urljoin(answer.geturl(), action)
    url = (address, urllib.parse.urlencode(fields).encode())
else:
    sys.exit("the issuer asks without end")
