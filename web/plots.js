/* The figures of a session, drawn by the head; shown as an image, so that nothing in it can run. */
import { get, blob, download } from './api.js'
import { h } from './dom.js'

const figures = [['', 'All figures'], ['utilization', 'Utilisation'], ['bubble', 'Utilisation of each GPU, as rows'], ['memory', 'Memory'], ['dram', 'DRAM activity'], ['pcie', 'PCIe'], ['nvlink', 'NVLink'], ['power', 'Power'], ['devices', 'Table of GPUs']]

export function plots(id) {
	const title = h('h1', {}, 'Plots'), said = h('p.said', { role: 'status', 'aria-live': 'polite' }), image = h('img', { alt: '' }), box = h('div.figure', { tabindex: 0, role: 'region', 'aria-label': 'Figures', hidden: true }, image)
	const which = h('select', { onchange: () => draw() }, figures.map(([value, text]) => h('option', { value }, text)))
	const node = h('select', { onchange: () => draw() }, h('option', { value: '' }, 'all nodes'))
	const again = h('button', { type: 'button', onclick: () => draw() }, 'Draw again')
	const save = format => h('button', { type: 'button', 'aria-label': `Download ${format.toUpperCase()}`, onclick: () => fetchFile(format) }, format.toUpperCase())
	let session = null, url = null, asked = null

	const path = format => `/api/v1/sessions/${encodeURIComponent(id)}/plot?format=${format}${which.value ? `&panels=${which.value}` : ''}${node.value ? `&node=${node.value}` : ''}`
	const show = (text, isError) => {
		said.className = isError ? 'said error' : 'said'
		said.textContent = text
	}

	async function draw() {
		if (asked) asked.abort()
		const mine = asked = new AbortController()
		show('Drawing…')
		box.setAttribute('aria-busy', 'true')
		try {
			const picture = await blob(path('svg'), mine.signal)
			if (mine !== asked) return
			if (url) URL.revokeObjectURL(url)
			image.src = url = URL.createObjectURL(picture)
			image.alt = `${which.selectedOptions[0].textContent} of the session ${session.name}, ${node.selectedOptions[0].textContent}`
			box.hidden = false
			show('')
		} catch (error) {
			if (mine !== asked || error.name === 'AbortError') return
			box.hidden = true
			show(error.message, true)
		}
		box.removeAttribute('aria-busy')
	}

	async function fetchFile(format) {
		show(`Drawing the ${format.toUpperCase()}…`)
		try {
			await download(path(format), `${session.name}.${format}`)
			show(`Saved ${session.name}.${format}.`)
		} catch (error) {
			show(error.message, true)
		}
	}

	async function refresh() { // once: a figure is made when it is asked for
		if (session) return
		const [found, nodes] = await Promise.all([get(`/api/v1/sessions/${encodeURIComponent(id)}`), get('/api/v1/nodes?limit=2000')])
		session = found.session
		title.textContent = `Plots of ${session.name}`
		node.append(...nodes.nodes.map(n => h('option', { value: n.id }, n.name)))
		await draw()
	}
	return {
		title: 'Plots', refresh,
		close() {
			if (asked) asked.abort()
			asked = null
			if (url) URL.revokeObjectURL(url)
		},
		element: h('div', {}, title, h('div.panel', {}, h('div.row', {}, h('label', {}, 'Figures', which), h('label', {}, 'Nodes', node), again, h('span.note', {}, 'Download:'), ['pdf', 'svg', 'png'].map(save)), said, box), h('p', {}, h('a', { href: '#/sessions' }, 'All sessions'))),
	}
}
