/* The flight recorder of a node, through the head: lists and downloads its files, and triggers a new one. */
import { get, send, download } from './api.js'
import { h, put, table, bytes, ago, none } from './dom.js'

const PAUSE_MS = 10000

/* In names of files all else is "_": 4711__claimed_by_alice_. */
const jobOf = f => f.job && f.job.replace(/__claimed_by_(.+)_$/, ' (claimed by $1)')

/* may(): whether this user may trigger a file. The list is requested when the section is shown, and then every PAUSE_MS. */
export function recorder(id, may) {
	const list = h('div'), said = h('p.said', { role: 'status', 'aria-live': 'polite' })
	const button = h('button', { type: 'button', hidden: true, onclick: () => { before = names; act(() => send('POST', `/api/v1/nodes/${id}/recorder/all`), 'Requested. The file appears here when it is complete.') } }, 'Write a file now')
	const section = h('section.panel', { 'aria-label': 'Flight recorder', hidden: true }, h('h2', {}, 'Flight recorder'), list, h('div.row', {}, button), said)
	let due = 0, busy = false, names = [], before = null

	function say(text, error) {
		said.className = error ? 'said error' : 'said'
		said.textContent = text
	}
	async function act(what, done) {
		try {
			await what()
			say(done)
		} catch (error) {
			say(error.message, true)
		}
		due = Date.now() + 1000
	}
	const fetchFile = f => h('button', { type: 'button', 'aria-label': `Download ${f.name}`, onclick: () => act(() => download(`/api/v1/nodes/${id}/recorder/${encodeURIComponent(f.name)}`, f.name), `Downloaded ${f.name}.`) }, 'Download')

	async function refresh() {
		if (busy || Date.now() < due) return
		busy = true
		due = Date.now() + PAUSE_MS
		try {
			const r = await get(`/api/v1/nodes/${id}/recorder`)
			section.hidden = !r.enabled
			names = r.files.map(f => f.name)
			if (before && names.some(name => !before.includes(name))) {
				before = null
				say('')
			}
			button.hidden = !may() || !r.jobs.length
			put(list, h('p.note', {}, !r.connected ? 'The node does not answer. These are the copies stored by the head.' : r.jobs.length ? `Recording the last seconds of ${r.jobs.map(j => j.id).join(', ')}.` : 'No job is being recorded.'), table(r.files.slice(0, 200), [
				['', fetchFile], ['Job', f => jobOf(f) || none, '', f => f.job], ['Written', f => ago(f.time), '', f => f.time], ['Why', f => f.reason || none, 'wrap', f => f.reason], ['Size', f => bytes(f.bytes), 'n', f => f.bytes], ['File', f => f.name, 'wrap', f => f.name],
			], 'No files yet.'), r.files.length > 200 ? h('p.note', {}, `Showing the newest 200 of ${r.files.length}.`) : '')
		} catch { /* the request failed; the page shows the state of the connection itself */
			section.hidden = true
		}
		busy = false
	}
	return { element: section, refresh }
}
