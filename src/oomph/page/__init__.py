"""Builds self-contained HTML pages: their frame and style, and charts as SVG with units and round ticks. Pure."""
