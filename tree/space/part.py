from spin import spin
def run(): spin()
run()
