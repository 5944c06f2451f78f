"""Builds self-contained HTML pages: their frame and style, and charts as SVG with titles, units and round ticks. Pure."""
