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
const known = v => v !== null && v !== undefined && Number.isFinite(v)

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

export const state = s => h('span.state', { class: `state ${s}` }, s)
export const bar = v => h('span.bars', {}, h('span.bar', { 'aria-hidden': 'true' }, h('i', { style: { width: `${Math.max(0, Math.min(1, v || 0)) * 100}%` } })), percent(v))

/* columns: [title, function of a row, class]. */
export function table(rows, columns, caption) {
	if (!rows.length) return h('p.empty', {}, caption)
	return h('div.scroll', {}, h('table', {},
		h('thead', {}, h('tr', {}, columns.map(([title, , kind]) => h('th', { class: kind, scope: 'col' }, title)))),
		h('tbody', {}, rows.map(row => h('tr', {}, columns.map(([, cell, kind]) => h('td', { class: kind }, cell(row))))))))
}

/* New content, but not under a finger: a click whose element was replaced between press and release
 * would be none. */
let pressed = false
const waiting = new Map()
addEventListener('pointerdown', () => { pressed = true }, true)
for (const end of ['pointerup', 'pointercancel', 'blur'])
	addEventListener(end, e => (end !== 'blur' || e.target === window) && setTimeout(() => {
		pressed = false
		waiting.forEach((children, element) => element.replaceChildren(...children))
		waiting.clear()
	}), true)

export function put(element, ...children) {
	if (pressed) waiting.set(element, children)
	else element.replaceChildren(...children)
}
