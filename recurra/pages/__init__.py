"""Pages and figures: what every HTML page that Recurra writes has in common.

`plots` sets the style of all figures, gives each learner a look of its own and turns figures into SVG and PNG.
`page` fills a page's template, which extends `base.html.jinja`, and puts figures into it, so that a page is one file
that needs no other and no network. Both need the extra `paper` or `stream` (Matplotlib and Jinja).
"""
