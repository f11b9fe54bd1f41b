"""Data files only: see NOTICE, and `keras_encdec.datasets.libreoffice_en_fr`."""
