/* GPUs by time, one canvas however many there are: drawn point by point into an image, scaled up. */
import { h } from './dom.js'
import { isDark } from './theme.js'

/* From nothing to full, readable on both backgrounds and for those who see red and green alike. */
const light = [[232, 236, 241], [158, 208, 205], [62, 158, 160], [17, 94, 125], [24, 38, 84]]
const dark = [[38, 45, 55], [26, 82, 96], [28, 140, 140], [110, 203, 160], [245, 233, 150]]

function shade(v) {
	const stops = isDark() ? dark : light, at = Math.max(0, Math.min(1, v)) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2)
	return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)))
}

export class Heatmap {
	constructor(onOpen) {
		this.onOpen = onOpen
		this.canvas = h('canvas', { tabindex: '0', role: 'img', 'aria-label': 'GPUs over time, not read yet' })
		this.tip = h('div.tip', { hidden: true, role: 'status' })
		this.names = h('div.names', { 'aria-hidden': 'true', hidden: true }) // the canvas says them
		this.scroll = h('div.scrollbox', {}, this.names, this.canvas)
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

	draw() {
		if (!this.data) return
		const { rows, points, step_seconds: step } = this.data
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
		this.canvas.setAttribute('aria-label', `${rows.length} GPUs over ${Math.round(points * step)} seconds; arrow keys read values, Enter opens the GPU`)
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
		this.axis.style.marginLeft = key ? `${this.names.offsetWidth + 8}px` : ''
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
		this.axis.style.marginLeft = `${this.names.offsetWidth + 8}px`
	}

	point(e) {
		const box = this.canvas.getBoundingClientRect(), { rows, points } = this.data
		this.at = { row: Math.min(rows.length - 1, Math.max(0, Math.floor((e.clientY - box.top) / box.height * rows.length))), column: Math.min(points - 1, Math.max(0, Math.floor((e.clientX - box.left) / box.width * points))) }
		this.say()
	}

	say() {
		const row = this.data && this.data.rows[this.at.row]
		if (!row) return
		const v = row.v[this.at.column], box = this.canvas.getBoundingClientRect(), home = this.element.getBoundingClientRect()
		const ago = Math.round((this.data.points - 1 - this.at.column) * this.data.step_seconds)
		this.tip.replaceChildren(`${row.node_name} GPU ${row.gpu}: ${v < 0 ? 'unknown' : this.unit(v / 100 * this.data.full)}, ${ago} s ago (${row.state})`)
		this.tip.hidden = false
		const x = box.left - home.left + (this.at.column + .5) / this.data.points * box.width, y = box.top - home.top + (this.at.row + 1) / this.data.rows.length * box.height
		this.tip.style.left = `${Math.max(0, Math.min(x, home.width - this.tip.offsetWidth))}px`
		this.tip.style.top = `${y + 4}px`
	}

	key(e) {
		const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key]
		if (e.key === 'Enter') this.open()
		if (!move || !this.data) return
		e.preventDefault()
		this.at = { row: Math.max(0, Math.min(this.data.rows.length - 1, this.at.row + move[0])), column: Math.max(0, Math.min(this.data.points - 1, this.at.column + move[1])) }
		this.say()
	}

	open() {
		const row = this.data && this.data.rows[this.at.row]
		if (row) this.onOpen(row)
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

