/* Elements and figures. Text from outside is only ever set as text, never parsed as HTML. */
export function h(tag, attributes, ...children) {
	const [name, ...classes] = tag.split('.')
	const element = document.createElement(name)
	if (classes.length) element.className = classes.join(' ')
	for (const [key, value] of Object.entries(attributes || {})) {
		if (value === undefined || value === null || value === false) continue
		if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
		else if (key === 'class') element.className = value
		else if (key === 'style') Object.assign(element.style, value)
		else element.setAttribute(key, value === true ? '' : value)
	}
	add(element, children)
	return element
}

function add(element, children) {
	for (const child of children) {
		if (Array.isArray(child)) add(element, child)
		else if (child !== undefined && child !== null && child !== false) element.append(child)
	}
}

export const none = '–'
export const known = v => Number.isFinite(v)

export const percent = v => (known(v) ? `${Math.round(v * 100)} %` : none)
export const watts = v => (!known(v) ? none : v >= 1e6 ? `${(v / 1e6).toFixed(2)} MW` : v >= 10000 ? `${(v / 1000).toFixed(1)} kW` : `${Math.round(v)} W`)
export const celsius = v => (known(v) ? `${Math.round(v)} °C` : none)
export const count = v => (known(v) ? v.toLocaleString('en').replace(/,/g, ' ') : none)
export function bytes(v) {
	if (!known(v)) return none
	for (const [unit, size] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 1024]])
		if (v >= size) return `${(v / size).toFixed(v / size < 10 ? 1 : 0)} ${unit}`
	return `${v} B`
}
export function energy(joules) {
	return !known(joules) ? none : joules >= 3.6e6 ? `${(joules / 3.6e6).toFixed(2)} kWh` : joules >= 3600 ? `${(joules / 3600).toFixed(1)} Wh` : `${Math.round(joules)} J`
}
export function duration(s) {
	if (s < 60) return `${Math.round(s)} s`
	if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
	if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
	return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`
}
export const time = text => (text ? new Date(text).toLocaleString([], { dateStyle: 'short', timeStyle: 'medium' }) : none)

/* How long ago something was; the whole time on hover. */
export const ago = text => (text ? h('time', { datetime: text, title: text }, `${duration(Math.max(0, (Date.now() - new Date(text)) / 1000))} ago`) : none)

export const state = s => h('span.state', { class: `state ${s}` }, s)
export const bar = v => h('span.bars', {}, h('span.bar', { 'aria-hidden': 'true' }, h('i', { style: { width: `${Math.max(0, Math.min(1, v || 0)) * 100}%` } })), percent(v))

/* Which column the user sorted each table by; tables are made again with every answer. */
const orders = new Map()

/* Unknown values stay last either way. */
function compare(a, b) {
	if (a === b) return 0
	if (typeof a === 'number' && typeof b === 'number') return a - b
	return String(a).localeCompare(String(b), 'en', { numeric: true })
}

function sorted(rows, columns, order) {
	if (!order) return rows
	const value = columns[order.column][3], isKnown = v => v !== null && v !== undefined && v !== '' && !Number.isNaN(v)
	return rows.map(row => [value(row), row]).sort(([a], [b]) => isKnown(b) - isKnown(a) || (isKnown(a) ? (order.down ? compare(b, a) : compare(a, b)) : 0)).map(([, row]) => row)
}

/* A page in a frame without rights has no storage. */
const storage = (() => { try { return localStorage } catch { return { getItem: () => null, setItem() {} } } })()
/* What the user typed into the filter of each table and whether its list of columns is open; which
 * columns are hidden is kept in the browser. */
const filters = new Map(), opened = new Set(), HIDDEN = 'gpuscope-hidden-columns'
const hidden = new Map(Object.entries(JSON.parse(storage.getItem(HIDDEN) || '{}')).map(([key, titles]) => [key, new Set(titles)]))

function hide(key, title, is) {
	const titles = hidden.get(key) || new Set()
	if (is) titles.add(title)
	else titles.delete(title)
	hidden.set(key, titles)
	storage.setItem(HIDDEN, JSON.stringify(Object.fromEntries([...hidden].map(([k, set]) => [k, [...set]]))))
}

/* Above tables that one may have to search: a filter on all their text, and which columns they have. */
function tools(key, columns, draw, said) { // key: its titles
	const boxes = columns.slice(1).filter(([title]) => title).map(([title]) => h('label.check', {}, h('input', { type: 'checkbox', 'aria-label': `Column ${title}`, checked: !(hidden.get(key) || new Set()).has(title), onchange: e => { hide(key, title, !e.target.checked); draw() } }), title))
	return h('div.tools', {}, h('input', { type: 'search', 'aria-label': 'Filter of the table', placeholder: 'filter', value: filters.get(key) || '', oninput: e => { filters.set(key, e.target.value); draw() } }), said,
		h('details', { open: opened.has(key), ontoggle: e => (e.target.open ? opened.add(key) : opened.delete(key)) }, h('summary', {}, 'Columns'), h('div.row', {}, boxes)))
}

const TOOLS_ROWS = 6 /* from here on a table has a filter */

/* columns: [title, function of a row, class, value to sort by (none: the column cannot be sorted)].
 * A click on a title sorts, a second one reverses, a third one restores the order of the server. */
export function table(rows, columns, caption) {
	if (!rows.length) return h('p.empty', {}, caption)
	const titles = columns.map(([title]) => title).join(','), key = `${location.hash.split('?')[0]} ${titles}`, body = h('tbody'), head = h('tr'), said = h('span.note', { role: 'status' })
	const hasTools = rows.length >= TOOLS_ROWS && columns.some(([, , , value]) => value)
	const turn = column => {
		const order = orders.get(key), first = rows.some(row => typeof columns[column][3](row) === 'number') // figures begin with the largest
		if (!order || order.column !== column) orders.set(key, { column, down: first })
		else if (order.down === first) orders.set(key, { column, down: !first })
		else orders.delete(key)
		draw()
	}
	const title = (i, order) => {
		const [text, , kind, value] = columns[i]
		return h('th', { class: kind, scope: 'col', 'aria-sort': value && (order && order.column === i ? (order.down ? 'descending' : 'ascending') : 'none') }, value ? h('button.sort', { type: 'button', onclick: () => turn(i) }, text) : text)
	}
	const draw = () => {
		const order = orders.get(key), gone = hasTools && hidden.get(titles) || new Set(), shown = columns.map((_, i) => i).filter(i => !gone.has(columns[i][0]))
		const wanted = hasTools ? (filters.get(titles) || '').trim().toLowerCase() : ''
		const found = sorted(rows, columns, order).map(row => h('tr', {}, shown.map(i => h('td', { class: columns[i][2] }, columns[i][1](row))))).filter(tr => !wanted || [...tr.children].some(td => td.textContent.toLowerCase().includes(wanted)))
		replace(head, shown.map(i => title(i, order)))
		body.replaceChildren(...found)
		said.textContent = wanted ? `${found.length} of ${rows.length} match` : ''
	}
	draw()
	return h('div', {}, hasTools ? tools(titles, columns, draw, said) : null, h('div.scroll', {}, h('table', {}, h('thead', {}, head), body)))
}

/* New content, but not under a finger: a click whose element was replaced between press and release
 * would be none. So it is of the space bar, which presses buttons when it is released. */
let pressed = false
const waiting = new Map()
const press = () => { pressed = true }, release = () => setTimeout(() => {
	pressed = false
	waiting.forEach((children, element) => replace(element, children))
	waiting.clear()
})
addEventListener('pointerdown', press, true)
addEventListener('keydown', e => e.key === ' ' && press(), true)
addEventListener('keyup', e => e.key === ' ' && release(), true)
for (const end of ['pointerup', 'pointercancel', 'blur'])
	addEventListener(end, e => (end !== 'blur' || e.target === window) && release(), true)

/* A link is the same where it leads, whatever is known of its name by now. */
const sign = e => `${e.tagName} ${e.getAttribute('href') || e.getAttribute('aria-label') || e.textContent}`
/* What had the focus when a reading came without it, by the element that was replaced. */
const missed = new WeakMap()

/* What has the focus keeps it when the same link or button is there again; when it comes back with a
 * later reading, it has it again, unless the user has gone elsewhere. */
function replace(element, children) {
	const active = document.activeElement, alike = wanted => [...element.querySelectorAll(wanted.tag)].filter(e => sign(e) === wanted.sign)
	let wanted = active === document.body ? missed.get(element) : null
	if (active !== element && element.contains(active)) {
		wanted = { tag: active.tagName, sign: sign(active) }
		wanted.place = alike(wanted).indexOf(active)
	}
	element.replaceChildren(...children)
	missed.delete(element)
	if (!wanted) return
	const found = alike(wanted)[wanted.place]
	if (!found) {
		missed.set(element, wanted)
		return
	}
	found.focus({ preventScroll: true })
	if (active.type === 'search') found.setSelectionRange(active.selectionStart, active.selectionEnd)
}

export function put(element, ...children) {
	if (pressed) waiting.set(element, children)
	else replace(element, children)
}
