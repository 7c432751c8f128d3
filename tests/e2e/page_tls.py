"""The page of a head that speaks HTTPS and asks for tokens, in a real browser that trusts the test's own CA."""

import os

from browser import Browser
from certs import certificates
from harness import case, main
from page_help import Head

TOKENS = 'read look-at-it\ncontrol do-all-of-it\nnode only-deliver\n'


def secure_head(t):
    certificates(t)
    for name, text in (('tokens', TOKENS), ('node-token', 'only-deliver\n')):
        with open(t.path(name), 'w') as f:
            f.write(text)
        os.chmod(t.path(name), 0o600)
    h = Head(t, '--token-file', t.path('tokens'), tls=True)
    t.equal('it says so', h.scheme, 'https')
    return h, h.node('one', 2, args=('--token-file', t.path('node-token')))


def log_in(b, token):
    b.wait('document.querySelector("input[type=password]")', 'the page asks for a token')
    b.type('input[type=password]', token)
    b.click('form button.main')


def texts(b, selector):
    return b.run(f'[...document.querySelectorAll("{selector}")].filter(e => e.offsetParent).map(e => e.innerText.trim())')


@case('a certificate that nobody vouches for is refused', timeout=120, needs=None)
def stranger(t):
    h, _ = secure_head(t)
    b = Browser(t)
    t.equal('refused', b.open(f'https://{h.http}/'), 'net::ERR_CERT_AUTHORITY_INVALID')
    b.wait('document.body && document.body.innerText', 'what the browser says instead')
    t.true('and nothing of it is shown', 'A token is needed' not in b.run('document.body.innerText'))


@case('tokens: none, a wrong one, one that may read, one that may control', timeout=300, needs=None)
def tokens(t):
    h, node = secure_head(t)
    b = Browser(t, ca=t.path('ca.pem'))
    b.size(1400, 900)
    t.equal('the certificate is trusted', b.open(f'https://{h.http}/#/sessions'), None)
    b.wait('document.querySelector("h1").innerText == "A token is needed"', 'without one it is asked for')
    t.true('the browser calls it secure', b.run('isSecureContext && location.protocol == "https:"'))
    for wrong in ('not-this-one', 'only-deliver'):  # a node's token opens nothing here
        log_in(b, wrong)
        b.wait('document.querySelector("form [role=alert]")', 'a wrong one is told')
        t.equal(f'what is said of {wrong}', texts(b, 'form [role=alert]'), ['The head rejects this token, or its role may not view pages.'])
        b.run('sessionStorage.clear()')
        b.reload()
    log_in(b, 'look-at-it')
    b.wait('document.body.innerText.includes("No session yet")', 'the sessions')
    b.wait('document.getElementById("live").className == "on"', 'events arrive, over TLS and with the token')
    t.equal('nothing to start or stop', texts(b, 'main button.main'), [])
    t.true('and why', any('may only read' in x for x in texts(b, 'main p.note')), texts(b, 'main p.note'))
    control = {'Authorization': 'Bearer do-all-of-it'}
    t.equal('another one starts a session', h.json('POST', '/api/v1/sessions', {'name': 'run'}, headers=control)[0], 200)
    b.wait('[...document.querySelectorAll("td")].some(e => e.innerText == "run")', 'it is shown')
    t.equal('no button stops or forgets it', b.run('[...document.querySelectorAll("td button")].length'), 0)
    # What the page does not offer, the head does not let it do either.
    t.equal('asked all the same', b.run('fetch("/api/v1/sessions/run/stop", {method: "POST", headers: {Authorization: "Bearer look-at-it"}}).then(r => r.status)'), 403)
    t.equal('its state', h.json('GET', '/api/v1/sessions/run', headers=control)[1]['session']['state'], 'active')
    b.key('o')
    b.wait('document.querySelector(".heat").dataset.rows == "2"', 'the GPUs of a node that delivers over TLS')
    b.run('sessionStorage.clear()')
    b.run('location.hash = "#/sessions"')
    b.reload()
    log_in(b, 'do-all-of-it')
    b.wait('document.querySelector(\'button[aria-label="stop run"]\')', 'who may control has the button')
    t.equal('and no excuse', [x for x in texts(b, 'main p.note') if 'may only read' in x], [])
    b.click('button[aria-label="stop run"]')
    b.wait('document.querySelector("[role=status].said").innerText == "Stopped run."', 'it is stopped')
    t.equal('its state', h.json('GET', '/api/v1/sessions/run', headers=control)[1]['session']['state'], 'stopped')
    b.type('form input', 'by page')
    b.click('form button.main')
    b.wait('document.querySelector("[role=status].said").innerText == "Started by page."', 'another is started')
    # A token is for one tab, and not for who comes later.
    t.equal('it is nowhere else', b.run('localStorage.length + document.cookie.length - (localStorage.getItem("gpuscope-theme") ? 1 : 0)'), 0)
    t.equal('errors of the console', [e for e in b.errors if '401' not in e and '403' not in e], [])
    node.terminate()


if __name__ == '__main__':
    main()
