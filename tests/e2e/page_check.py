"""What every page must be, checked in the browser: names, contrast, order of the focus, width of a
phone, nothing from elsewhere."""

NAMES = r"""
[...document.querySelectorAll('button, input, select, textarea, a, img, canvas, [tabindex]')].filter(e => e.offsetParent !== null || e.tagName === 'IMG' && e.offsetWidth).filter(e => {
	if (e.id === 'main') return false // focused by the page, after going elsewhere
	if (e.tagName === 'IMG') return !e.hasAttribute('alt')
	if (e.tagName === 'CANVAS' && !e.hasAttribute('tabindex')) return false // drawings: what they show is said elsewhere
	return !((e.innerText || '').trim() || e.getAttribute('aria-label') || e.getAttribute('title') || (e.labels && [...e.labels].some(l => l.innerText.trim())))
}).map(e => e.outerHTML.slice(0, 200))
"""

STRUCTURE = r"""
(() => {
	const wrong = [], seen = new Set()
	for (const e of document.querySelectorAll('[id]')) { if (seen.has(e.id)) wrong.push(`id ${e.id} twice`); seen.add(e.id) }
	const h1 = [...document.querySelectorAll('main h1')].filter(e => e.offsetParent !== null)
	if (h1.length !== 1) wrong.push(`${h1.length} h1`)
	for (const t of document.querySelectorAll('main table')) for (const th of t.querySelectorAll('thead th')) if (!th.scope && !th.closest('.u-legend')) wrong.push(`th without scope: ${th.innerText}`)
	if (!document.documentElement.lang) wrong.push('no lang')
	if (!document.title.includes('gpuscope')) wrong.push('no title')
	for (const e of document.querySelectorAll('[aria-labelledby], [aria-describedby]')) for (const id of (e.getAttribute('aria-labelledby') || e.getAttribute('aria-describedby')).split(' ')) if (!document.getElementById(id)) wrong.push(`names ${id}, which is not there`)
	return wrong
})()
"""

# WCAG 2.1, 1.4.3: 4.5, and 3 for large text.
CONTRAST = r"""
(() => {
	const parse = text => { const v = text.match(/[\d.]+/g).map(Number); return { rgb: v.slice(0, 3), a: v.length > 3 ? v[3] : 1 } }
	const light = rgb => { const [r, g, b] = rgb.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c.rgb } return [255, 255, 255] }
	const low = new Map()
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement
		if (!walk.currentNode.nodeValue.trim() || e.offsetParent === null || e.closest('canvas, noscript, button:disabled, option')) continue
		const style = getComputedStyle(e), c = parse(style.color), b = behind(e)
		if (style.visibility === 'hidden' || c.a < 0.99) continue
		const [x, y] = [light(c.rgb), light(b)].sort((p, q) => q - p), ratio = (x + 0.05) / (y + 0.05)
		const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)
		if (ratio < (large ? 3 : 4.5)) low.set(`${style.color} on ${b}`, `${ratio.toFixed(2)}: ${walk.currentNode.nodeValue.trim().slice(0, 40)}`)
	}
	return [...low].map(x => x.join(' '))
})()
"""

FOCUSED = r"""
(() => {
	const e = document.activeElement
	if (!e || e === document.body) return null
	const all = [...document.querySelectorAll('*')], b = e.getBoundingClientRect(), s = getComputedStyle(e)
	return { at: all.indexOf(e), tag: e.tagName, name: (e.getAttribute('aria-label') || e.innerText || '').slice(0, 60), seen: b.width > 0 && b.height > 0, outlined: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1 }
})()
"""


def tab(b, times):
    """Where the focus goes, key by key, from the beginning of the page."""
    b.run('document.querySelector("a").focus({ focusVisible: true })')
    found = [b.run(FOCUSED)]
    for _ in range(times):
        b.key('Tab')
        at = b.run(FOCUSED)
        if not at or found and at['at'] < found[0]['at']:
            break
        found.append(at)
    return found


def check(t, b, what):
    """Of the page that is shown: names, structure, contrast both light and dark, a phone's width."""
    t.equal(f'{what}: everything that can be used has a name', b.run(NAMES), [])
    t.equal(f'{what}: structure', b.run(STRUCTURE), [])
    for dark in (False, True):
        b.scheme(dark)
        b.wait(f'matchMedia("(prefers-color-scheme: dark)").matches == {str(dark).lower()}', 'the colours')
        # Until no bar is on its way from one colour to the other.
        b.wait('document.getAnimations().length == 0', 'the colours are there')
        t.equal(f'{what}: contrast, {"dark" if dark else "light"}', b.run(CONTRAST), [])
    b.scheme(False)
    b.size(390, 844, mobile=True)
    # Charts take their new width when they are told of it, a moment later.
    b.wait('innerWidth == 390 && document.documentElement.scrollWidth <= innerWidth', f'{what}: not wider than a phone', 30)
    b.size(1400, 900)


def check_focus(t, b, what, times=12):
    # The page brings itself up to date meanwhile: what moved between two keys is asked again.
    for _ in range(5):
        order = tab(b, times)
        if [x['at'] for x in order] == sorted(x['at'] for x in order):
            break
    t.true(f'{what}: the focus moves', len(order) > 3, order)
    t.equal(f'{what}: in the order of the page', [x['at'] for x in order], sorted(x['at'] for x in order))
    t.equal(f'{what}: and is seen', [x for x in order[1:] if not x['seen'] or not x['outlined']], [])


def check_origin(t, b, address):
    t.true('requests were seen', b.requests)
    t.equal('no request leaves the origin', [u for u in b.requests if not u.startswith((f'http://{address}/', 'blob:', 'data:', 'about:'))], [])
