# The page /usage of a site whose customers have no password of their own at the
# web pages: it asks the gate for a link, and redirects to it. See docs/customers.md.
import http.cookies, http.server, json, os, urllib.request

GATE = os.environ["TOLLGATE_CONTROL"]
SECRET = os.environ["TOLLGATE_SECRET"]
SESSIONS = {os.environ["SESSION"]: "acc_1"}  # yours: the account of each session


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        cookies = http.cookies.SimpleCookie(self.headers.get("Cookie", ""))
        account = SESSIONS.get(cookies["session"].value) if "session" in cookies else None
        if account is None or self.path != "/usage":
            return self.send_error(404)
        ask = urllib.request.Request(f"http://{GATE}/tollgate/accounts/{account}/portal", method="POST")
        ask.add_header("Authorization", "Bearer " + SECRET)
        with urllib.request.urlopen(ask, timeout=5) as answer:
            link = json.load(answer)["url"]
        self.send_response(303)
        self.send_header("Location", link)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Site).serve_forever()
