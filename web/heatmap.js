/* GPUs by time, one canvas however many there are: drawn point by point into an image, scaled up. */
import { h } from './dom.js'
import { color, isDark } from './theme.js'

/* From nothing to full, readable on both backgrounds and for those who see red and green alike. */
const light = [[232, 236, 241], [158, 208, 205], [62, 158, 160], [17, 94, 125], [24, 38, 84]]
const dark = [[38, 45, 55], [26, 82, 96], [28, 140, 140], [110, 203, 160], [245, 233, 150]]

function shade(v) {
	const stops = isDark() ? dark : light, at = Math.max(0, Math.min(1, v)) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2)
	return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)))
}

/* As the head sorts: the worst last. */
export const severity = s => ['ok', 'idle', 'degraded', 'throttled', 'unreachable', 'failing'].indexOf(s)

export class Heatmap {
	constructor(onOpen) {
		this.onOpen = onOpen
		this.canvas = h('canvas', { tabindex: '0', role: 'img', 'aria-label': 'GPUs over time, not read yet' })
		this.tip = h('div.tip', { hidden: true, role: 'status' })
		this.names = h('div.names', { 'aria-hidden': 'true', hidden: true }) // the canvas says them
		this.strip = h('canvas.strip', { width: 1, 'aria-hidden': 'true', title: 'The state of each GPU now' }) // the cursor says it
		this.scroll = h('div.scrollbox', {}, this.names, this.canvas, this.strip)
		this.worst = false
		this.oldest = h('span')
		this.axis = h('div.axis', {}, this.oldest, h('span', {}, 'now'))
		this.element = h('div.heat', {}, this.scroll, this.axis, this.tip)
		this.canvas.addEventListener('mousemove', e => this.point(e))
		this.canvas.addEventListener('mouseleave', () => { this.tip.hidden = true })
		this.canvas.addEventListener('click', e => { this.point(e); this.open() })
		this.canvas.addEventListener('keydown', e => this.key(e))
		this.at = { row: 0, column: 0 }
	}

	/* What makes the head send only what is new; once a minute everything, for what reached it late. */
	since(value) {
		const fits = this.data && this.data.value === value && performance.now() - this.whole < 60000
		return fits ? `&since=${this.data.cursor}` : ''
	}

	/* All columns, or the last ones, of which `fresh` are not in base yet. */
	show(data, unit, base) {
		if (data.fresh === null) this.whole = performance.now()
		else data.rows.forEach((row, i) => {
			const old = base.rows[i], kept = old.v.slice(data.fresh, data.points - row.v.length + data.fresh)
			data.rows[i] = { ...old, state: row.state, v: kept.concat(row.v) }
		})
		this.data = data
		this.unit = unit
		this.draw()
	}

	/* Rows by name, as they come, or those of the worst states first. */
	sort(worst) {
		this.worst = worst
		this.draw()
	}

	drawStates(rows, height) {
		const image = new ImageData(1, Math.max(rows.length, 1)), colors = new Map()
		const rgb = state => {
			if (!colors.has(state)) colors.set(state, [1, 3, 5].map(at => parseInt(color(state).slice(at, at + 2), 16)))
			return colors.get(state)
		}
		rows.forEach((row, y) => image.data.set([...rgb(row.state), 255], y * 4))
		this.strip.height = image.height
		this.strip.style.height = `${image.height * height}px`
		this.strip.getContext('2d').putImageData(image, 0, 0)
	}

	draw() {
		if (!this.data) return
		const { points, step_seconds: step } = this.data, { rows: given } = this.data
		const rows = this.rows = this.worst ? given.map((row, i) => [row, i]).sort(([a, i], [b, k]) => severity(b.state) - severity(a.state) || i - k).map(([row]) => row) : given
		const height = rows.length > 400 ? 3 : rows.length > 100 ? 6 : rows.length > 32 ? 12 : 20
		const image = new ImageData(points, Math.max(rows.length, 1)), table = Array.from({ length: 101 }, (_, i) => shade(i / 100))
		rows.forEach((row, y) => row.v.forEach((v, x) => {
			if (v < 0) return // unknown: the hatching below the canvas shows through
			const c = table[Math.min(v, 100)]
			image.data.set([c[0], c[1], c[2], 255], (y * points + x) * 4)
		}))
		this.canvas.width = points
		this.canvas.height = Math.max(rows.length, 1)
		this.canvas.style.height = `${Math.max(rows.length, 1) * height}px`
		this.canvas.getContext('2d').putImageData(image, 0, 0)
		this.drawStates(rows, height)
		this.canvas.setAttribute('aria-label', `${rows.length} GPUs over ${Math.round(points * step)} seconds; arrow keys read values, Enter opens the GPU at that time`)
		this.name(rows, height)
		this.oldest.textContent = `${Math.round(points * step / 60 * 10) / 10} min ago`
		this.element.dataset.rows = rows.length
	}

	/* Beside the rows, as long as they are high enough to be read. */
	name(rows, height) {
		if (height < 12) return this.nameNodes(rows, height)
		const key = rows.map(r => `${r.node_name} ${r.gpu}`).join('\n')
		this.names.hidden = !key
		if (key === this.named) return
		this.named = key
		this.names.className = height < 20 ? 'names small' : 'names'
		this.names.replaceChildren(...(key ? rows.map(r => h('div', { style: { height: `${height}px` }, title: `${r.node_name} GPU ${r.gpu}` }, h('span', {}, r.node_name), h('b', {}, `GPU ${r.gpu}`))) : []))
		this.axis.style.marginLeft = key ? `${this.canvas.offsetLeft - this.names.offsetLeft}px` : ''
	}

	/* Of rows too low for a name: one for the rows of each node, where they are high enough together. */
	nameNodes(rows, height) {
		const bands = []
		for (const row of rows) {
			const last = bands[bands.length - 1]
			if (last && last.node === row.node) last.n++
			else bands.push({ node: row.node, name: row.node_name, n: 1 })
		}
		const key = bands.map(b => `${b.name} ${b.n}`).join('\n')
		if (key === this.named) return
		this.named = key
		this.names.hidden = false
		this.names.className = 'names small'
		this.names.replaceChildren(...bands.map(b => h('div', { style: { height: `${b.n * height}px` }, title: b.name }, b.n * height >= 11 ? h('span', {}, b.name) : null)))
		this.axis.style.marginLeft = `${this.canvas.offsetLeft - this.names.offsetLeft}px`
	}

	point(e) {
		const box = this.canvas.getBoundingClientRect(), { rows } = this, { points } = this.data
		this.at = { row: Math.min(rows.length - 1, Math.max(0, Math.floor((e.clientY - box.top) / box.height * rows.length))), column: Math.min(points - 1, Math.max(0, Math.floor((e.clientX - box.left) / box.width * points))) }
		this.say()
	}

	say() {
		const row = this.rows && this.rows[this.at.row]
		if (!row) return
		const v = row.v[this.at.column], box = this.canvas.getBoundingClientRect(), home = this.element.getBoundingClientRect()
		const ago = Math.round((this.data.points - 1 - this.at.column) * this.data.step_seconds)
		this.tip.replaceChildren(`${row.node_name} GPU ${row.gpu}: ${v < 0 ? 'unknown' : this.unit(v / 100 * this.data.full)}, ${ago} s ago (${row.state})`)
		this.tip.hidden = false
		const x = box.left - home.left + (this.at.column + .5) / this.data.points * box.width, y = box.top - home.top + (this.at.row + 1) / this.rows.length * box.height
		this.tip.style.left = `${Math.max(0, Math.min(x, home.width - this.tip.offsetWidth))}px`
		this.tip.style.top = `${y + 4}px`
	}

	key(e) {
		const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key]
		if (e.key === 'Enter') this.open()
		if (!move || !this.data) return
		e.preventDefault()
		this.at = { row: Math.max(0, Math.min(this.rows.length - 1, this.at.row + move[0])), column: Math.max(0, Math.min(this.data.points - 1, this.at.column + move[1])) }
		this.say()
	}

	/* With the time around what was pointed at, some columns to both sides, in seconds since 1970. */
	open() {
		const row = this.rows && this.rows[this.at.row], { end_time: end, points, step_seconds: step } = this.data || {}, half = Math.max(30, 10 * step), now = new Date(end).getTime() / 1000
		const to = Math.min(now, now - (points - 1 - this.at.column) * step + half)
		if (row) this.onOpen(row, to - 2 * half, to)
	}
}

export function legend() {
	const canvas = h('canvas', { width: 100, height: 1, 'aria-hidden': 'true' })
	const draw = () => {
		const image = new ImageData(100, 1)
		for (let i = 0; i < 100; i++) image.data.set([...shade(i / 99), 255], i * 4)
		canvas.getContext('2d').putImageData(image, 0, 0)
	}
	draw()
	const empty = h('span'), full = h('span')
	/* The figures at both ends, with their unit. */
	const name = (least, most) => { empty.textContent = least; full.textContent = most }
	return { element: h('span.legend', {}, empty, canvas, full, h('i.unknown', { 'aria-hidden': 'true' }), 'unknown'), draw, name }
}

