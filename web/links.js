/* Links from one thing to the page of another. */
import { peer } from './api.js'
import { h } from './dom.js'

/* isShort: without its node, where that stands before it. */
export const gpuLink = (g, isShort) => h('a', { href: `#/gpu/${g.node}/${g.gpu}`, 'aria-label': isShort === true ? `${g.node_name} GPU ${g.gpu}` : null }, isShort === true ? String(g.gpu) : `${g.node_name} GPU ${g.gpu}`)
/* An agent has one node, which is its first page. */
export const nodeLink = n => h('a', { href: peer === 'agent' ? '#/' : `#/node/${n.node || n.id}` }, n.node_name || n.name)
export const processLink = p => h('a', { href: `#/process/${p.node}/${p.pid}` }, `${p.name || '?'} (${p.pid})`)
