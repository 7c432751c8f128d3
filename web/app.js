/* Which view is shown, when it is brought up to date, and what is said when the head is away. */
import { get, hasToken, listen, peer, setPeer, setToken } from './api.js'
import { h } from './dom.js'
import { startTheme } from './theme.js'
import { overview, gpuList, nodes, node, gpu, work } from './views.js'
import { find } from './find.js'
import { process } from './process.js'
import { local } from './local.js'
import { plots } from './plots.js'
import { sessions } from './sessions.js'
import { job, compareJobs } from './jobs.js'

const main = document.getElementById('main'), nav = document.getElementById('nav'), live = document.getElementById('live'), banner = document.getElementById('banner')
const headPages = [['#/', 'Overview'], ['#/gpus', 'GPUs'], ['#/nodes', 'Nodes'], ['#/work', 'Jobs'], ['#/sessions', 'Sessions'], ['#/find', 'Search']], agentPages = [['#/', 'Node'], ['#/work', 'Jobs']]
let pages = headPages, view = null, mayControl = true, running = false, again = false, slow = 0

const lost = () => ({ title: 'No such page', refresh: async () => {}, close() {}, element: h('div', {}, h('p.empty', { role: 'alert' }, 'There is no such page.'), h('p.empty', {}, h('a', { href: '#/' }, 'To the overview'))) })

/* Of an agent: what needs a head leads to its node. */
function chooseLocal(parts, query) {
	switch (parts[1]) {
	case 'gpu': return gpu(parts[2], parts[3], query)
	case 'process': return process(parts[2], parts[3])
	case 'work': return work()
	case '': return local()
	default: return lost()
	}
}

function choose() {
	const [path, text] = location.hash.slice(1).split('?'), parts = (path || '/').split('/'), query = new URLSearchParams(text)
	if (pages === agentPages) return chooseLocal(parts, query)
	switch (parts[1]) {
	case 'gpus': return gpuList(query)
	case 'nodes': return nodes()
	case 'node': return node(parts[2], () => mayControl)
	case 'gpu': return gpu(parts[2], parts[3], query)
	case 'process': return process(parts[2], parts[3])
	case 'work': return work()
	case 'job': return job(parts[2])
	case 'job-compare': return compareJobs(query)
	case 'plots': return plots(parts[2])
	case 'sessions': return sessions(() => mayControl)
	case 'find': return find(decodeURIComponent(parts[2] || ''))
	case '': return overview()
	default: return lost()
	}
}

function down(text) {
	banner.hidden = !text
	banner.textContent = text || ''
}

function login() {
	const token = h('input', { type: 'password', autocomplete: 'current-password', required: true })
	const form = h('form.panel', { onsubmit: e => { e.preventDefault(); setToken(token.value); location.reload() } }, h('h1', {}, 'A token is needed'), hasToken() ? h('p.error', { role: 'alert' }, `The ${peer} rejects this token, or its role may not view pages.`) : h('p.note', {}, `This ${peer} requires one.`),
		h('div.row', {}, h('label', {}, 'Token', token), h('button.main', { type: 'submit' }, 'Go on')))
	if (view) view.close()
	view = null
	main.replaceChildren(form)
	token.focus()
}

async function refresh() {
	if (!view || document.hidden) return
	if (running) {
		again = true
		return
	}
	running = true
	const began = performance.now(), shown = view
	try {
		const asked = await shown.refresh()
		if (shown.failed && asked !== false && shown === view) { // it was only for a while
			shown.failed = false
			main.replaceChildren(shown.element)
		}
		down('')
	} catch (error) {
		if (error.status === 401) login()
		else if (error.status === 0) down(`The ${peer} does not answer. The data shown are old; trying again.`)
		else if (shown === view && !shown.failed) {
			shown.failed = true
			main.replaceChildren(h('p.empty', { role: 'alert' }, error.message), h('p.empty', {}, h('a', { href: '#/' }, 'To the overview')))
		}
	}
	slow = performance.now() - began
	running = false
	if (again) {
		again = false
		setTimeout(refresh, 50)
	}
}

function show() {
	if (view) view.close()
	view = choose()
	document.title = `${view.title} – gpuscope`
	main.replaceChildren(view.element)
	nav.replaceChildren(...pages.map(([href, text]) => h('a', { href, 'aria-current': text === view.title ? 'page' : null }, text)))
	const here = nav.querySelector('[aria-current]')
	if (here && here.scrollIntoView) here.scrollIntoView({ block: 'nearest', inline: 'nearest' })
	refresh()
}

async function whoAmI() {
	try {
		const o = await get('/api/v1/overview')
		mayControl = o.may_control
		if (o.role === 'agent') {
			setPeer('agent')
			pages = agentPages
		}
		document.getElementById('footer').textContent = `gpuscope ${o.version} · ${o.role === 'agent' ? 'an agent: the last minutes of this node' : `nodes connect to ${o.grpc_address}`}`
	} catch { /* the view says so */ }
}

startTheme(document.getElementById('theme'))
addEventListener('hashchange', () => {
	show()
	if (view.focus) view.focus()
	else main.focus({ preventScroll: true })
	scrollTo(0, 0)
})
addEventListener('visibilitychange', refresh)
/* Its address would be that of a page. */
document.querySelector('.skip').addEventListener('click', e => { e.preventDefault(); main.focus() })
let last = 0
const keys = { o: '#/', g: '#/gpus', n: '#/nodes', j: '#/work', s: '#/sessions', '/': '#/find' }

/* The keys of the page. */
const help = h('dialog', { 'aria-label': 'Keys' })
function showKeys() {
	const rows = [...pages.map(([href, text]) => [Object.keys(keys).find(key => keys[key] === href), text]), ['?', 'These keys'], ['← ↑ → ↓ Enter', 'In the heat map: read values, open the GPU at that time'], ['Drag', 'In the charts of a GPU: zoom']]
	help.replaceChildren(h('h2', {}, 'Keys'), h('dl', {}, rows.filter(([key]) => key).map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])), h('button.main', { type: 'button', onclick: () => help.close() }, 'Close'))
	if (!help.open) help.showModal()
}
document.body.append(help)
document.getElementById('help').addEventListener('click', showKeys)
addEventListener('keydown', e => {
	if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return
	if (help.open) return
	if (e.key === '?') showKeys()
	else if (keys[e.key] && pages.some(([href]) => href === keys[e.key])) {
		e.preventDefault() // "/" would open a search of the browser itself
		location.hash = keys[e.key]
	}
})
whoAmI().then(show)
listen((event, data) => {
	live.textContent = event === 'state' ? `live · ${data.gpus} ${data.gpus === 1 ? 'GPU' : 'GPUs'}` : 'live'
	/* A busy head or a slow machine is asked less often. */
	if (performance.now() - last < Math.max(900, slow * 8, data.gpus > 500 ? 2500 : 0)) return
	last = performance.now()
	refresh()
}, (up, seconds, error) => {
	live.className = up ? 'on' : ''
	if (up) return
	live.textContent = `not connected, trying again in ${seconds} s`
	if (!error || error.status === 0) down(`The ${peer} does not answer. The data shown are old; trying again.`)
})
