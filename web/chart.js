/* A chart of values over time: the mean as a line, min and max as a band, gaps as gaps. */
import uPlot from './uplot.js'
import { h } from './dom.js'
import { color } from './theme.js'

const hues = { utilization_ratio: '#0b9a93', memory_used_ratio: '#5a7be0', dram_active_ratio: '#b06ad8', power_watts: '#d98a1f', temperature_celsius: '#d9534f', sm_clock_hertz: '#6b9a2d', cpu_ratio: '#5a7be0', host_memory_bytes: '#b06ad8', gpu_memory_used_bytes: '#d98a1f', sm_ratio: '#0b9a93' }

/* A point between two gaps is no line; it would not be seen. */
const lonely = (u, i) => u.data[i].map((v, at) => (v !== null && (u.data[i][at - 1] ?? null) === null && (u.data[i][at + 1] ?? null) === null ? at : -1)).filter(at => at >= 0)

export class Chart {
	/* scale: what one unit of the axis is; most: the axis is at least this long. */
	constructor(title, key, unit, scale, most) {
		this.key = key
		this.scale = scale
		this.unit = unit
		this.most = most
		this.box = h('div.chart')
		this.note = h('p.note')
		this.now = h('b')
		this.limit = null
		this.events = []
		this.onZoom = null
		this.any = false
		this.element = h('section.panel', { 'aria-label': `${title} over time` }, h('div.row', {}, h('h2', {}, title), this.now), this.box, this.note)
		this.watcher = new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.box.clientWidth, height: 180 }))
		this.watcher.observe(this.box)
	}

	figure(v) {
		return v === null || v === undefined ? '–' : `${v < 10 && this.unit !== '%' ? v.toFixed(1) : Math.round(v)} ${this.unit}`
	}

	/* The value of now, and the limit that is drawn as a line; both in base units, undefined: unknown. */
	setNow(value, limit) {
		this.now.textContent = value === undefined || value === null ? '' : this.figure(value * this.scale)
		const scaled = limit ? limit * this.scale : null
		if (scaled === this.limit) return
		this.limit = scaled
		if (this.plot) this.plot.setData(this.plot.data)
	}

	drawLimit(u) {
		if (this.limit === null) return
		const y = u.valToPos(this.limit, 'y', true), c = u.ctx
		c.save()
		c.strokeStyle = c.fillStyle = color('soft')
		c.lineWidth = devicePixelRatio
		c.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio])
		c.beginPath()
		c.moveTo(u.bbox.left, y)
		c.lineTo(u.bbox.left + u.bbox.width, y)
		c.stroke()
		c.font = `${11 * devicePixelRatio}px system-ui, sans-serif`
		c.textAlign = 'left'
		c.fillText(`limit ${this.figure(this.limit)}`, u.bbox.left + 4 * devicePixelRatio, y + 13 * devicePixelRatio)
		c.restore()
	}

	/* [{ at: seconds since 1970, text }], as lines across the time axis. */
	setEvents(events) {
		if (JSON.stringify(events) === JSON.stringify(this.events)) return
		this.events = events
		if (this.plot) this.plot.redraw()
	}

	drawEvents(u) {
		const c = u.ctx
		c.save()
		c.strokeStyle = c.fillStyle = color('accent')
		c.lineWidth = devicePixelRatio
		c.font = `${11 * devicePixelRatio}px system-ui, sans-serif`
		let end = -Infinity, row = 0
		for (const { at, text } of this.events) {
			const x = u.valToPos(at, 'x', true)
			if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) continue
			const width = c.measureText(text).width, left = x + width > u.bbox.left + u.bbox.width
			c.beginPath()
			c.moveTo(x, u.bbox.top)
			c.lineTo(x, u.bbox.top + u.bbox.height)
			c.stroke()
			row = x - (left ? width : 0) < end ? row + 1 : 0 // names below each other where they would meet
			end = x + (left ? 0 : width) + 8 * devicePixelRatio
			c.textAlign = left ? 'right' : 'left'
			c.fillText(text, x + (left ? -4 : 4) * devicePixelRatio, u.bbox.top + u.bbox.height - (4 + row * 13) * devicePixelRatio)
		}
		c.restore()
	}

	/* A part of the time axis was chosen with the mouse. */
	zoom(u) {
		const { left, width } = u.select
		if (width > 4 && this.onZoom) this.onZoom(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'))
		u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
	}

	options() {
		const stroke = hues[this.key] || '#0b9a93', unit = this.unit
		const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line') } }
		const value = (u, v) => this.figure(v)
		return {
			width: this.box.clientWidth || 400, height: 180,
			scales: { y: { range: (u, min, max) => [0, Math.max(this.most, (max || 0) * 1.05, (this.limit || 0) * 1.05)] } },
			/* Room for the first label, which may have date and time. */
			axes: [{ ...axis, space: 100 }, { ...axis, size: 80, values: (u, ticks) => ticks.map(v => `${v} ${unit}`) }],
			series: [{}, { label: 'min', show: true, stroke: 'transparent', value, points: { show: false } }, { label: 'mean', stroke, width: 1.6, value, points: { show: true, size: 4, fill: stroke, filter: lonely } }, { label: 'max', stroke: 'transparent', value, points: { show: false } }],
			bands: [{ series: [3, 1], fill: stroke + '30' }],
			/* One cursor over all charts of the page; its figures are shown while it is there. */
			cursor: { drag: { x: this.onZoom !== null, y: false, setScale: false }, sync: { key: 'charts' } },
			hooks: { draw: [u => { this.drawLimit(u); this.drawEvents(u) }], setSelect: [u => this.zoom(u)], setCursor: [u => this.box.classList.toggle('read', u.cursor.left >= 0)] },
		}
	}

	show(data) {
		const v = data.values[this.key], scaled = list => list.map(x => (x === null ? null : x * this.scale))
		const columns = [data.time, scaled(v.min), scaled(v.mean), scaled(v.max)]
		const any = this.any = v.mean.some(x => x !== null)
		this.note.textContent = any ? (data.complete ? '' : 'Incomplete: choose a shorter time range.') : 'No data for this time.'
		if (this.plot) this.plot.setData(columns)
		else this.plot = new uPlot(this.options(), columns, this.box)
	}

	redraw() { // with other colours
		if (!this.plot) return
		const data = this.plot.data
		this.plot.destroy()
		this.plot = new uPlot(this.options(), data, this.box)
	}

	close() {
		this.watcher.disconnect()
		if (this.plot) this.plot.destroy()
	}
}

/* From one to the next as different as can be, on light and on dark. */
const lineHues = ['#0b9a93', '#d98a1f', '#5a7be0', '#d9534f', '#6b9a2d', '#b06ad8', '#a0764a', '#c9569b']

/* A reading that came late leaves a column or two empty, which is no gap. */
const bridged = v => v.map((x, i) => (x !== null || !i ? x : [1, 2].some(n => (v[i + n] ?? null) !== null) && [1, 2].some(n => (v[i - n] ?? null) !== null) ? v[i - 1] ?? v[i - 2] : null))

/* One line for each GPU, out of a heat map's rows. */
export class Lines extends Chart {
	options() {
		const o = super.options(), value = o.series[1].value
		return { ...o, bands: [], series: [{}, ...this.names.map((name, i) => ({ label: name, stroke: lineHues[i % lineHues.length], width: 1.4, dash: i < lineHues.length ? undefined : [6, 3], value, points: { show: true, size: 4, filter: lonely } }))] }
	}

	show(data) {
		const end = new Date(data.end_time).getTime() / 1000, names = data.rows.map(row => `GPU ${row.gpu}`)
		const columns = [Array.from({ length: data.points }, (_, i) => end - (data.points - 1 - i) * data.step_seconds), ...data.rows.map(row => bridged(row.v.map(v => (v < 0 ? null : v / 100 * data.full * this.scale))))]
		const any = columns.slice(1).some(column => column.some(v => v !== null))
		this.note.textContent = any ? (data.next ? `The first ${data.rows.length} of ${data.total} GPUs.` : '') : 'No data for this time.'
		if (this.plot && this.names.join() !== names.join()) {
			this.plot.destroy()
			this.plot = null
		}
		this.box.classList.add('named')
		this.names = names
		if (this.plot) this.plot.setData(columns)
		else this.plot = new uPlot(this.options(), columns, this.box)
	}
}
