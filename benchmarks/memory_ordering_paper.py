"""x"""
def paper(*, smoke): pass
