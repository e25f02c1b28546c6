* opweave, problem placement, formulation disjunctive
* objective in milliseconds; columns of times in units of 7.393216e-06 seconds
NAME model
ROWS
 N objective_in_milliseconds
 E one_device(0)
 E one_device(1)
 E one_device(2)
 E one_device(3)
 E one_device(4)
 E one_device(5)
 E one_device(6)
 E marginals(0)
 E marginals(1)
 E marginals(2)
 E marginals(3)
 E marginals(4)
 E marginals(5)
 E marginals(6)
 E marginals(7)
 E marginals(8)
 E marginals(9)
 E marginals(10)
 E marginals(11)
 E marginals(12)
 E marginals(13)
 E marginals(14)
 E marginals(15)
 E marginals(16)
 E marginals(17)
 E marginals(18)
 E marginals(19)
 E marginals(20)
 E marginals(21)
 E marginals(22)
 E marginals(23)
 L precedence(0)
 L precedence(1)
 L precedence(2)
 L precedence(3)
 L precedence(4)
 L precedence(5)
 L arrivals(0)
 L arrivals(1)
 L arrivals(2)
 L arrivals(3)
 L arrivals(4)
 L arrivals(5)
 L arrivals(6)
 L arrivals(7)
 L arrivals(8)
 L arrivals(9)
 L arrivals(10)
 L arrivals(11)
 L arrivals(12)
 L arrivals(13)
 L arrivals(14)
 L arrivals(15)
 L arrivals(16)
 L arrivals(17)
 L arrivals(18)
 L arrivals(19)
 L arrivals(20)
 L arrivals(21)
 L arrivals(22)
 L arrivals(23)
 L heads(0)
 L heads(1)
 L heads(2)
 L heads(3)
 L heads(4)
 L heads(5)
 L heads(6)
 L tails(0)
 L tails(1)
 L tails(2)
 L tails(3)
 L tails(4)
 L tails(5)
 L tails(6)
 L work(0)
 L work(1)
 L work(2)
 L work(3)
 L work(4)
 L work(5)
 L work(6)
 L work(7)
 L work(8)
 L work(9)
 L work(10)
 L work(11)
 L work(12)
 L work(13)
 L work(14)
 L work(15)
 L work(16)
 L work(17)
 L work(18)
 L work(19)
 L work(20)
 L work(21)
 L work(22)
 L work(23)
 L work(24)
 L work(25)
 L work(26)
 L work(27)
 L work(28)
 L work(29)
 L work(30)
 L work(31)
 L work(32)
 L work(33)
 L work(34)
 L work(35)
 L work(36)
 L work(37)
 L work(38)
 L work(39)
 L work(40)
 L work(41)
 L work(42)
 L work(43)
 L work(44)
 L work(45)
 L work(46)
 L work(47)
 L work(48)
 L work(49)
 L work(50)
 L work(51)
 L work(52)
 L work(53)
 L work(54)
 L work(55)
 L traffic(0)
 L traffic(1)
 L traffic(2)
 L traffic(3)
COLUMNS
 m0 'MARKER' 'INTORG'
 x(conv1,gpu) objective_in_milliseconds 0.0
 x(conv1,gpu) one_device(0) 1.0
 x(conv1,gpu) marginals(0) -1.0
 x(conv1,gpu) precedence(0) 135.25913486093197
 x(conv1,gpu) arrivals(0) 135.25913486093197
 x(conv1,gpu) arrivals(2) 135.25913486093197
 x(conv1,gpu) tails(0) 946.8139440265238
 x(conv1,gpu) work(0) 135.25913486093197
 x(conv1,gpu) work(2) 135.25913486093197
 x(conv1,gpu) work(4) 135.25913486093197
 x(conv1,gpu) work(6) 135.25913486093197
 x(conv1,gpu) work(8) 135.25913486093197
 x(conv1,gpu) work(10) 135.25913486093197
 x(conv1,gpu) work(12) 135.25913486093197
 x(conv1,tpu) objective_in_milliseconds 0.0
 x(conv1,tpu) one_device(0) 1.0
 x(conv1,tpu) marginals(1) -1.0
 x(conv1,tpu) precedence(0) 135.25913486093197
 x(conv1,tpu) arrivals(0) 135.25913486093197
 x(conv1,tpu) arrivals(2) 135.25913486093197
 x(conv1,tpu) tails(0) 946.8139440265238
 x(conv1,tpu) work(1) 135.25913486093197
 x(conv1,tpu) work(3) 135.25913486093197
 x(conv1,tpu) work(5) 135.25913486093197
 x(conv1,tpu) work(7) 135.25913486093197
 x(conv1,tpu) work(9) 135.25913486093197
 x(conv1,tpu) work(11) 135.25913486093197
 x(conv1,tpu) work(13) 135.25913486093197
 x(conv2,gpu) objective_in_milliseconds 0.0
 x(conv2,gpu) one_device(1) 1.0
 x(conv2,gpu) marginals(2) -1.0
 x(conv2,gpu) marginals(4) -1.0
 x(conv2,gpu) precedence(1) 135.25913486093197
 x(conv2,gpu) arrivals(1) 53.18605597347624
 x(conv2,gpu) arrivals(4) 135.25913486093197
 x(conv2,gpu) arrivals(6) 135.25913486093197
 x(conv2,gpu) heads(1) 135.25913486093197
 x(conv2,gpu) tails(1) 811.5548091655918
 x(conv2,gpu) work(0) 135.25913486093197
 x(conv2,gpu) work(2) 135.25913486093197
 x(conv2,gpu) work(4) 135.25913486093197
 x(conv2,gpu) work(6) 135.25913486093197
 x(conv2,gpu) work(8) 135.25913486093197
 x(conv2,gpu) work(10) 135.25913486093197
 x(conv2,gpu) work(14) 135.25913486093197
 x(conv2,gpu) work(16) 135.25913486093197
 x(conv2,gpu) work(18) 135.25913486093197
 x(conv2,gpu) work(20) 135.25913486093197
 x(conv2,gpu) work(22) 135.25913486093197
 x(conv2,gpu) work(24) 135.25913486093197
 x(conv2,tpu) objective_in_milliseconds 0.0
 x(conv2,tpu) one_device(1) 1.0
 x(conv2,tpu) marginals(3) -1.0
 x(conv2,tpu) marginals(5) -1.0
 x(conv2,tpu) precedence(1) 135.25913486093197
 x(conv2,tpu) arrivals(3) 53.18605597347624
 x(conv2,tpu) arrivals(4) 135.25913486093197
 x(conv2,tpu) arrivals(6) 135.25913486093197
 x(conv2,tpu) heads(1) 135.25913486093197
 x(conv2,tpu) tails(1) 811.5548091655918
 x(conv2,tpu) work(1) 135.25913486093197
 x(conv2,tpu) work(3) 135.25913486093197
 x(conv2,tpu) work(5) 135.25913486093197
 x(conv2,tpu) work(7) 135.25913486093197
 x(conv2,tpu) work(9) 135.25913486093197
 x(conv2,tpu) work(11) 135.25913486093197
 x(conv2,tpu) work(15) 135.25913486093197
 x(conv2,tpu) work(17) 135.25913486093197
 x(conv2,tpu) work(19) 135.25913486093197
 x(conv2,tpu) work(21) 135.25913486093197
 x(conv2,tpu) work(23) 135.25913486093197
 x(conv2,tpu) work(25) 135.25913486093197
 x(conv3,gpu) objective_in_milliseconds 0.0
 x(conv3,gpu) one_device(2) 1.0
 x(conv3,gpu) marginals(6) -1.0
 x(conv3,gpu) marginals(8) -1.0
 x(conv3,gpu) precedence(2) 135.25913486093197
 x(conv3,gpu) arrivals(5) 53.18605597347624
 x(conv3,gpu) arrivals(8) 135.25913486093197
 x(conv3,gpu) arrivals(10) 135.25913486093197
 x(conv3,gpu) heads(2) 270.51826972186393
 x(conv3,gpu) tails(2) 676.2956743046599
 x(conv3,gpu) work(0) 135.25913486093197
 x(conv3,gpu) work(2) 135.25913486093197
 x(conv3,gpu) work(4) 135.25913486093197
 x(conv3,gpu) work(6) 135.25913486093197
 x(conv3,gpu) work(8) 135.25913486093197
 x(conv3,gpu) work(14) 135.25913486093197
 x(conv3,gpu) work(16) 135.25913486093197
 x(conv3,gpu) work(18) 135.25913486093197
 x(conv3,gpu) work(20) 135.25913486093197
 x(conv3,gpu) work(22) 135.25913486093197
 x(conv3,gpu) work(26) 135.25913486093197
 x(conv3,gpu) work(28) 135.25913486093197
 x(conv3,gpu) work(30) 135.25913486093197
 x(conv3,gpu) work(32) 135.25913486093197
 x(conv3,gpu) work(34) 135.25913486093197
 x(conv3,tpu) objective_in_milliseconds 0.0
 x(conv3,tpu) one_device(2) 1.0
 x(conv3,tpu) marginals(7) -1.0
 x(conv3,tpu) marginals(9) -1.0
 x(conv3,tpu) precedence(2) 135.25913486093197
 x(conv3,tpu) arrivals(7) 53.18605597347624
 x(conv3,tpu) arrivals(8) 135.25913486093197
 x(conv3,tpu) arrivals(10) 135.25913486093197
 x(conv3,tpu) heads(2) 270.51826972186393
 x(conv3,tpu) tails(2) 676.2956743046599
 x(conv3,tpu) work(1) 135.25913486093197
 x(conv3,tpu) work(3) 135.25913486093197
 x(conv3,tpu) work(5) 135.25913486093197
 x(conv3,tpu) work(7) 135.25913486093197
 x(conv3,tpu) work(9) 135.25913486093197
 x(conv3,tpu) work(15) 135.25913486093197
 x(conv3,tpu) work(17) 135.25913486093197
 x(conv3,tpu) work(19) 135.25913486093197
 x(conv3,tpu) work(21) 135.25913486093197
 x(conv3,tpu) work(23) 135.25913486093197
 x(conv3,tpu) work(27) 135.25913486093197
 x(conv3,tpu) work(29) 135.25913486093197
 x(conv3,tpu) work(31) 135.25913486093197
 x(conv3,tpu) work(33) 135.25913486093197
 x(conv3,tpu) work(35) 135.25913486093197
 x(conv4,gpu) objective_in_milliseconds 0.0
 x(conv4,gpu) one_device(3) 1.0
 x(conv4,gpu) marginals(10) -1.0
 x(conv4,gpu) marginals(12) -1.0
 x(conv4,gpu) precedence(3) 135.25913486093197
 x(conv4,gpu) arrivals(9) 53.18605597347624
 x(conv4,gpu) arrivals(12) 135.25913486093197
 x(conv4,gpu) arrivals(14) 135.25913486093197
 x(conv4,gpu) heads(3) 405.7774045827959
 x(conv4,gpu) tails(3) 541.0365394437279
 x(conv4,gpu) work(0) 135.25913486093197
 x(conv4,gpu) work(2) 135.25913486093197
 x(conv4,gpu) work(4) 135.25913486093197
 x(conv4,gpu) work(6) 135.25913486093197
 x(conv4,gpu) work(14) 135.25913486093197
 x(conv4,gpu) work(16) 135.25913486093197
 x(conv4,gpu) work(18) 135.25913486093197
 x(conv4,gpu) work(20) 135.25913486093197
 x(conv4,gpu) work(26) 135.25913486093197
 x(conv4,gpu) work(28) 135.25913486093197
 x(conv4,gpu) work(30) 135.25913486093197
 x(conv4,gpu) work(32) 135.25913486093197
 x(conv4,gpu) work(36) 135.25913486093197
 x(conv4,gpu) work(38) 135.25913486093197
 x(conv4,gpu) work(40) 135.25913486093197
 x(conv4,gpu) work(42) 135.25913486093197
 x(conv4,tpu) objective_in_milliseconds 0.0
 x(conv4,tpu) one_device(3) 1.0
 x(conv4,tpu) marginals(11) -1.0
 x(conv4,tpu) marginals(13) -1.0
 x(conv4,tpu) precedence(3) 135.25913486093197
 x(conv4,tpu) arrivals(11) 53.18605597347624
 x(conv4,tpu) arrivals(12) 135.25913486093197
 x(conv4,tpu) arrivals(14) 135.25913486093197
 x(conv4,tpu) heads(3) 405.7774045827959
 x(conv4,tpu) tails(3) 541.0365394437279
 x(conv4,tpu) work(1) 135.25913486093197
 x(conv4,tpu) work(3) 135.25913486093197
 x(conv4,tpu) work(5) 135.25913486093197
 x(conv4,tpu) work(7) 135.25913486093197
 x(conv4,tpu) work(15) 135.25913486093197
 x(conv4,tpu) work(17) 135.25913486093197
 x(conv4,tpu) work(19) 135.25913486093197
 x(conv4,tpu) work(21) 135.25913486093197
 x(conv4,tpu) work(27) 135.25913486093197
 x(conv4,tpu) work(29) 135.25913486093197
 x(conv4,tpu) work(31) 135.25913486093197
 x(conv4,tpu) work(33) 135.25913486093197
 x(conv4,tpu) work(37) 135.25913486093197
 x(conv4,tpu) work(39) 135.25913486093197
 x(conv4,tpu) work(41) 135.25913486093197
 x(conv4,tpu) work(43) 135.25913486093197
 x(conv5,gpu) objective_in_milliseconds 0.0
 x(conv5,gpu) one_device(4) 1.0
 x(conv5,gpu) marginals(14) -1.0
 x(conv5,gpu) marginals(16) -1.0
 x(conv5,gpu) precedence(4) 135.25913486093197
 x(conv5,gpu) arrivals(13) 53.186055973476186
 x(conv5,gpu) arrivals(16) 135.25913486093197
 x(conv5,gpu) arrivals(18) 135.25913486093197
 x(conv5,gpu) heads(4) 541.0365394437279
 x(conv5,gpu) tails(4) 405.7774045827959
 x(conv5,gpu) work(0) 135.25913486093197
 x(conv5,gpu) work(2) 135.25913486093197
 x(conv5,gpu) work(4) 135.25913486093197
 x(conv5,gpu) work(14) 135.25913486093197
 x(conv5,gpu) work(16) 135.25913486093197
 x(conv5,gpu) work(18) 135.25913486093197
 x(conv5,gpu) work(26) 135.25913486093197
 x(conv5,gpu) work(28) 135.25913486093197
 x(conv5,gpu) work(30) 135.25913486093197
 x(conv5,gpu) work(36) 135.25913486093197
 x(conv5,gpu) work(38) 135.25913486093197
 x(conv5,gpu) work(40) 135.25913486093197
 x(conv5,gpu) work(44) 135.25913486093197
 x(conv5,gpu) work(46) 135.25913486093197
 x(conv5,gpu) work(48) 135.25913486093197
 x(conv5,tpu) objective_in_milliseconds 0.0
 x(conv5,tpu) one_device(4) 1.0
 x(conv5,tpu) marginals(15) -1.0
 x(conv5,tpu) marginals(17) -1.0
 x(conv5,tpu) precedence(4) 135.25913486093197
 x(conv5,tpu) arrivals(15) 53.186055973476186
 x(conv5,tpu) arrivals(16) 135.25913486093197
 x(conv5,tpu) arrivals(18) 135.25913486093197
 x(conv5,tpu) heads(4) 541.0365394437279
 x(conv5,tpu) tails(4) 405.7774045827959
 x(conv5,tpu) work(1) 135.25913486093197
 x(conv5,tpu) work(3) 135.25913486093197
 x(conv5,tpu) work(5) 135.25913486093197
 x(conv5,tpu) work(15) 135.25913486093197
 x(conv5,tpu) work(17) 135.25913486093197
 x(conv5,tpu) work(19) 135.25913486093197
 x(conv5,tpu) work(27) 135.25913486093197
 x(conv5,tpu) work(29) 135.25913486093197
 x(conv5,tpu) work(31) 135.25913486093197
 x(conv5,tpu) work(37) 135.25913486093197
 x(conv5,tpu) work(39) 135.25913486093197
 x(conv5,tpu) work(41) 135.25913486093197
 x(conv5,tpu) work(45) 135.25913486093197
 x(conv5,tpu) work(47) 135.25913486093197
 x(conv5,tpu) work(49) 135.25913486093197
 x(conv6,gpu) objective_in_milliseconds 0.0
 x(conv6,gpu) one_device(5) 1.0
 x(conv6,gpu) marginals(18) -1.0
 x(conv6,gpu) marginals(20) -1.0
 x(conv6,gpu) precedence(5) 135.25913486093197
 x(conv6,gpu) arrivals(17) 53.186055973476186
 x(conv6,gpu) arrivals(20) 135.25913486093197
 x(conv6,gpu) arrivals(22) 135.25913486093197
 x(conv6,gpu) heads(5) 676.2956743046599
 x(conv6,gpu) tails(5) 270.51826972186393
 x(conv6,gpu) work(0) 135.25913486093197
 x(conv6,gpu) work(2) 135.25913486093197
 x(conv6,gpu) work(14) 135.25913486093197
 x(conv6,gpu) work(16) 135.25913486093197
 x(conv6,gpu) work(26) 135.25913486093197
 x(conv6,gpu) work(28) 135.25913486093197
 x(conv6,gpu) work(36) 135.25913486093197
 x(conv6,gpu) work(38) 135.25913486093197
 x(conv6,gpu) work(44) 135.25913486093197
 x(conv6,gpu) work(46) 135.25913486093197
 x(conv6,gpu) work(50) 135.25913486093197
 x(conv6,gpu) work(52) 135.25913486093197
 x(conv6,tpu) objective_in_milliseconds 0.0
 x(conv6,tpu) one_device(5) 1.0
 x(conv6,tpu) marginals(19) -1.0
 x(conv6,tpu) marginals(21) -1.0
 x(conv6,tpu) precedence(5) 135.25913486093197
 x(conv6,tpu) arrivals(19) 53.186055973476186
 x(conv6,tpu) arrivals(20) 135.25913486093197
 x(conv6,tpu) arrivals(22) 135.25913486093197
 x(conv6,tpu) heads(5) 676.2956743046599
 x(conv6,tpu) tails(5) 270.51826972186393
 x(conv6,tpu) work(1) 135.25913486093197
 x(conv6,tpu) work(3) 135.25913486093197
 x(conv6,tpu) work(15) 135.25913486093197
 x(conv6,tpu) work(17) 135.25913486093197
 x(conv6,tpu) work(27) 135.25913486093197
 x(conv6,tpu) work(29) 135.25913486093197
 x(conv6,tpu) work(37) 135.25913486093197
 x(conv6,tpu) work(39) 135.25913486093197
 x(conv6,tpu) work(45) 135.25913486093197
 x(conv6,tpu) work(47) 135.25913486093197
 x(conv6,tpu) work(51) 135.25913486093197
 x(conv6,tpu) work(53) 135.25913486093197
 x(conv7,gpu) objective_in_milliseconds 0.0
 x(conv7,gpu) one_device(6) 1.0
 x(conv7,gpu) marginals(22) -1.0
 x(conv7,gpu) arrivals(21) 53.186055973476186
 x(conv7,gpu) heads(6) 811.5548091655918
 x(conv7,gpu) tails(6) 135.25913486093197
 x(conv7,gpu) work(0) 135.25913486093197
 x(conv7,gpu) work(14) 135.25913486093197
 x(conv7,gpu) work(26) 135.25913486093197
 x(conv7,gpu) work(36) 135.25913486093197
 x(conv7,gpu) work(44) 135.25913486093197
 x(conv7,gpu) work(50) 135.25913486093197
 x(conv7,gpu) work(54) 135.25913486093197
 x(conv7,tpu) objective_in_milliseconds 0.0
 x(conv7,tpu) one_device(6) 1.0
 x(conv7,tpu) marginals(23) -1.0
 x(conv7,tpu) arrivals(23) 53.186055973476186
 x(conv7,tpu) heads(6) 811.5548091655918
 x(conv7,tpu) tails(6) 135.25913486093197
 x(conv7,tpu) work(1) 135.25913486093197
 x(conv7,tpu) work(15) 135.25913486093197
 x(conv7,tpu) work(27) 135.25913486093197
 x(conv7,tpu) work(37) 135.25913486093197
 x(conv7,tpu) work(45) 135.25913486093197
 x(conv7,tpu) work(51) 135.25913486093197
 x(conv7,tpu) work(55) 135.25913486093197
 m1 'MARKER' 'INTEND'
 z(conv1,conv2,gpu,gpu) objective_in_milliseconds 0.0
 z(conv1,conv2,gpu,gpu) marginals(0) 1.0
 z(conv1,conv2,gpu,gpu) marginals(2) 1.0
 z(conv1,conv2,gpu,tpu) objective_in_milliseconds 0.0
 z(conv1,conv2,gpu,tpu) marginals(0) 1.0
 z(conv1,conv2,gpu,tpu) marginals(3) 1.0
 z(conv1,conv2,gpu,tpu) precedence(0) 8.864342662246038
 z(conv1,conv2,gpu,tpu) arrivals(3) 8.864342662246038
 z(conv1,conv2,gpu,tpu) traffic(2) 8.864342662246038
 z(conv1,conv2,gpu,tpu) traffic(3) 8.864342662246038
 z(conv1,conv2,tpu,gpu) objective_in_milliseconds 0.0
 z(conv1,conv2,tpu,gpu) marginals(1) 1.0
 z(conv1,conv2,tpu,gpu) marginals(2) 1.0
 z(conv1,conv2,tpu,gpu) precedence(0) 8.864342662246038
 z(conv1,conv2,tpu,gpu) arrivals(1) 8.864342662246038
 z(conv1,conv2,tpu,gpu) traffic(0) 8.864342662246038
 z(conv1,conv2,tpu,gpu) traffic(1) 8.864342662246038
 z(conv1,conv2,tpu,tpu) objective_in_milliseconds 0.0
 z(conv1,conv2,tpu,tpu) marginals(1) 1.0
 z(conv1,conv2,tpu,tpu) marginals(3) 1.0
 z(conv2,conv3,gpu,gpu) objective_in_milliseconds 0.0
 z(conv2,conv3,gpu,gpu) marginals(4) 1.0
 z(conv2,conv3,gpu,gpu) marginals(6) 1.0
 z(conv2,conv3,gpu,tpu) objective_in_milliseconds 0.0
 z(conv2,conv3,gpu,tpu) marginals(4) 1.0
 z(conv2,conv3,gpu,tpu) marginals(7) 1.0
 z(conv2,conv3,gpu,tpu) precedence(1) 8.864342662246038
 z(conv2,conv3,gpu,tpu) arrivals(7) 8.864342662246038
 z(conv2,conv3,gpu,tpu) traffic(2) 8.864342662246038
 z(conv2,conv3,gpu,tpu) traffic(3) 8.864342662246038
 z(conv2,conv3,tpu,gpu) objective_in_milliseconds 0.0
 z(conv2,conv3,tpu,gpu) marginals(5) 1.0
 z(conv2,conv3,tpu,gpu) marginals(6) 1.0
 z(conv2,conv3,tpu,gpu) precedence(1) 8.864342662246038
 z(conv2,conv3,tpu,gpu) arrivals(5) 8.864342662246038
 z(conv2,conv3,tpu,gpu) traffic(0) 8.864342662246038
 z(conv2,conv3,tpu,gpu) traffic(1) 8.864342662246038
 z(conv2,conv3,tpu,tpu) objective_in_milliseconds 0.0
 z(conv2,conv3,tpu,tpu) marginals(5) 1.0
 z(conv2,conv3,tpu,tpu) marginals(7) 1.0
 z(conv3,conv4,gpu,gpu) objective_in_milliseconds 0.0
 z(conv3,conv4,gpu,gpu) marginals(8) 1.0
 z(conv3,conv4,gpu,gpu) marginals(10) 1.0
 z(conv3,conv4,gpu,tpu) objective_in_milliseconds 0.0
 z(conv3,conv4,gpu,tpu) marginals(8) 1.0
 z(conv3,conv4,gpu,tpu) marginals(11) 1.0
 z(conv3,conv4,gpu,tpu) precedence(2) 8.864342662246038
 z(conv3,conv4,gpu,tpu) arrivals(11) 8.864342662246038
 z(conv3,conv4,gpu,tpu) traffic(2) 8.864342662246038
 z(conv3,conv4,gpu,tpu) traffic(3) 8.864342662246038
 z(conv3,conv4,tpu,gpu) objective_in_milliseconds 0.0
 z(conv3,conv4,tpu,gpu) marginals(9) 1.0
 z(conv3,conv4,tpu,gpu) marginals(10) 1.0
 z(conv3,conv4,tpu,gpu) precedence(2) 8.864342662246038
 z(conv3,conv4,tpu,gpu) arrivals(9) 8.864342662246038
 z(conv3,conv4,tpu,gpu) traffic(0) 8.864342662246038
 z(conv3,conv4,tpu,gpu) traffic(1) 8.864342662246038
 z(conv3,conv4,tpu,tpu) objective_in_milliseconds 0.0
 z(conv3,conv4,tpu,tpu) marginals(9) 1.0
 z(conv3,conv4,tpu,tpu) marginals(11) 1.0
 z(conv4,conv5,gpu,gpu) objective_in_milliseconds 0.0
 z(conv4,conv5,gpu,gpu) marginals(12) 1.0
 z(conv4,conv5,gpu,gpu) marginals(14) 1.0
 z(conv4,conv5,gpu,tpu) objective_in_milliseconds 0.0
 z(conv4,conv5,gpu,tpu) marginals(12) 1.0
 z(conv4,conv5,gpu,tpu) marginals(15) 1.0
 z(conv4,conv5,gpu,tpu) precedence(3) 8.864342662246038
 z(conv4,conv5,gpu,tpu) arrivals(15) 8.864342662246038
 z(conv4,conv5,gpu,tpu) traffic(2) 8.864342662246038
 z(conv4,conv5,gpu,tpu) traffic(3) 8.864342662246038
 z(conv4,conv5,tpu,gpu) objective_in_milliseconds 0.0
 z(conv4,conv5,tpu,gpu) marginals(13) 1.0
 z(conv4,conv5,tpu,gpu) marginals(14) 1.0
 z(conv4,conv5,tpu,gpu) precedence(3) 8.864342662246038
 z(conv4,conv5,tpu,gpu) arrivals(13) 8.864342662246038
 z(conv4,conv5,tpu,gpu) traffic(0) 8.864342662246038
 z(conv4,conv5,tpu,gpu) traffic(1) 8.864342662246038
 z(conv4,conv5,tpu,tpu) objective_in_milliseconds 0.0
 z(conv4,conv5,tpu,tpu) marginals(13) 1.0
 z(conv4,conv5,tpu,tpu) marginals(15) 1.0
 z(conv5,conv6,gpu,gpu) objective_in_milliseconds 0.0
 z(conv5,conv6,gpu,gpu) marginals(16) 1.0
 z(conv5,conv6,gpu,gpu) marginals(18) 1.0
 z(conv5,conv6,gpu,tpu) objective_in_milliseconds 0.0
 z(conv5,conv6,gpu,tpu) marginals(16) 1.0
 z(conv5,conv6,gpu,tpu) marginals(19) 1.0
 z(conv5,conv6,gpu,tpu) precedence(4) 8.864342662246038
 z(conv5,conv6,gpu,tpu) arrivals(19) 8.864342662246038
 z(conv5,conv6,gpu,tpu) traffic(2) 8.864342662246038
 z(conv5,conv6,gpu,tpu) traffic(3) 8.864342662246038
 z(conv5,conv6,tpu,gpu) objective_in_milliseconds 0.0
 z(conv5,conv6,tpu,gpu) marginals(17) 1.0
 z(conv5,conv6,tpu,gpu) marginals(18) 1.0
 z(conv5,conv6,tpu,gpu) precedence(4) 8.864342662246038
 z(conv5,conv6,tpu,gpu) arrivals(17) 8.864342662246038
 z(conv5,conv6,tpu,gpu) traffic(0) 8.864342662246038
 z(conv5,conv6,tpu,gpu) traffic(1) 8.864342662246038
 z(conv5,conv6,tpu,tpu) objective_in_milliseconds 0.0
 z(conv5,conv6,tpu,tpu) marginals(17) 1.0
 z(conv5,conv6,tpu,tpu) marginals(19) 1.0
 z(conv6,conv7,gpu,gpu) objective_in_milliseconds 0.0
 z(conv6,conv7,gpu,gpu) marginals(20) 1.0
 z(conv6,conv7,gpu,gpu) marginals(22) 1.0
 z(conv6,conv7,gpu,tpu) objective_in_milliseconds 0.0
 z(conv6,conv7,gpu,tpu) marginals(20) 1.0
 z(conv6,conv7,gpu,tpu) marginals(23) 1.0
 z(conv6,conv7,gpu,tpu) precedence(5) 8.864342662246038
 z(conv6,conv7,gpu,tpu) arrivals(23) 8.864342662246038
 z(conv6,conv7,gpu,tpu) traffic(2) 8.864342662246038
 z(conv6,conv7,gpu,tpu) traffic(3) 8.864342662246038
 z(conv6,conv7,tpu,gpu) objective_in_milliseconds 0.0
 z(conv6,conv7,tpu,gpu) marginals(21) 1.0
 z(conv6,conv7,tpu,gpu) marginals(22) 1.0
 z(conv6,conv7,tpu,gpu) precedence(5) 8.864342662246038
 z(conv6,conv7,tpu,gpu) arrivals(21) 8.864342662246038
 z(conv6,conv7,tpu,gpu) traffic(0) 8.864342662246038
 z(conv6,conv7,tpu,gpu) traffic(1) 8.864342662246038
 z(conv6,conv7,tpu,tpu) objective_in_milliseconds 0.0
 z(conv6,conv7,tpu,tpu) marginals(21) 1.0
 z(conv6,conv7,tpu,tpu) marginals(23) 1.0
 S(conv1) objective_in_milliseconds 0.0
 S(conv1) precedence(0) 1.0
 S(conv1) arrivals(0) 1.0
 S(conv1) arrivals(2) 1.0
 S(conv1) heads(0) -1.0
 S(conv1) tails(0) 1.0
 S(conv2) objective_in_milliseconds 0.0
 S(conv2) precedence(0) -1.0
 S(conv2) precedence(1) 1.0
 S(conv2) arrivals(1) -1.0
 S(conv2) arrivals(3) -1.0
 S(conv2) arrivals(4) 1.0
 S(conv2) arrivals(6) 1.0
 S(conv2) heads(1) -1.0
 S(conv2) tails(1) 1.0
 S(conv3) objective_in_milliseconds 0.0
 S(conv3) precedence(1) -1.0
 S(conv3) precedence(2) 1.0
 S(conv3) arrivals(5) -1.0
 S(conv3) arrivals(7) -1.0
 S(conv3) arrivals(8) 1.0
 S(conv3) arrivals(10) 1.0
 S(conv3) heads(2) -1.0
 S(conv3) tails(2) 1.0
 S(conv4) objective_in_milliseconds 0.0
 S(conv4) precedence(2) -1.0
 S(conv4) precedence(3) 1.0
 S(conv4) arrivals(9) -1.0
 S(conv4) arrivals(11) -1.0
 S(conv4) arrivals(12) 1.0
 S(conv4) arrivals(14) 1.0
 S(conv4) heads(3) -1.0
 S(conv4) tails(3) 1.0
 S(conv5) objective_in_milliseconds 0.0
 S(conv5) precedence(3) -1.0
 S(conv5) precedence(4) 1.0
 S(conv5) arrivals(13) -1.0
 S(conv5) arrivals(15) -1.0
 S(conv5) arrivals(16) 1.0
 S(conv5) arrivals(18) 1.0
 S(conv5) heads(4) -1.0
 S(conv5) tails(4) 1.0
 S(conv6) objective_in_milliseconds 0.0
 S(conv6) precedence(4) -1.0
 S(conv6) precedence(5) 1.0
 S(conv6) arrivals(17) -1.0
 S(conv6) arrivals(19) -1.0
 S(conv6) arrivals(20) 1.0
 S(conv6) arrivals(22) 1.0
 S(conv6) heads(5) -1.0
 S(conv6) tails(5) 1.0
 S(conv7) objective_in_milliseconds 0.0
 S(conv7) precedence(5) -1.0
 S(conv7) arrivals(21) -1.0
 S(conv7) arrivals(23) -1.0
 S(conv7) heads(6) -1.0
 S(conv7) tails(6) 1.0
 T(conv1,gpu) objective_in_milliseconds 0.0
 T(conv1,gpu) arrivals(0) -1.0
 T(conv1,gpu) arrivals(1) 1.0
 T(conv1,tpu) objective_in_milliseconds 0.0
 T(conv1,tpu) arrivals(2) -1.0
 T(conv1,tpu) arrivals(3) 1.0
 T(conv2,gpu) objective_in_milliseconds 0.0
 T(conv2,gpu) arrivals(4) -1.0
 T(conv2,gpu) arrivals(5) 1.0
 T(conv2,tpu) objective_in_milliseconds 0.0
 T(conv2,tpu) arrivals(6) -1.0
 T(conv2,tpu) arrivals(7) 1.0
 T(conv3,gpu) objective_in_milliseconds 0.0
 T(conv3,gpu) arrivals(8) -1.0
 T(conv3,gpu) arrivals(9) 1.0
 T(conv3,tpu) objective_in_milliseconds 0.0
 T(conv3,tpu) arrivals(10) -1.0
 T(conv3,tpu) arrivals(11) 1.0
 T(conv4,gpu) objective_in_milliseconds 0.0
 T(conv4,gpu) arrivals(12) -1.0
 T(conv4,gpu) arrivals(13) 1.0
 T(conv4,tpu) objective_in_milliseconds 0.0
 T(conv4,tpu) arrivals(14) -1.0
 T(conv4,tpu) arrivals(15) 1.0
 T(conv5,gpu) objective_in_milliseconds 0.0
 T(conv5,gpu) arrivals(16) -1.0
 T(conv5,gpu) arrivals(17) 1.0
 T(conv5,tpu) objective_in_milliseconds 0.0
 T(conv5,tpu) arrivals(18) -1.0
 T(conv5,tpu) arrivals(19) 1.0
 T(conv6,gpu) objective_in_milliseconds 0.0
 T(conv6,gpu) arrivals(20) -1.0
 T(conv6,gpu) arrivals(21) 1.0
 T(conv6,tpu) objective_in_milliseconds 0.0
 T(conv6,tpu) arrivals(22) -1.0
 T(conv6,tpu) arrivals(23) 1.0
 C_max objective_in_milliseconds 0.007393216
 C_max tails(0) -1.0
 C_max tails(1) -1.0
 C_max tails(2) -1.0
 C_max tails(3) -1.0
 C_max tails(4) -1.0
 C_max tails(5) -1.0
 C_max tails(6) -1.0
 C_max work(0) -1.0
 C_max work(1) -1.0
 C_max work(2) -1.0
 C_max work(3) -1.0
 C_max work(4) -1.0
 C_max work(5) -1.0
 C_max work(6) -1.0
 C_max work(7) -1.0
 C_max work(8) -1.0
 C_max work(9) -1.0
 C_max work(10) -1.0
 C_max work(11) -1.0
 C_max work(12) -1.0
 C_max work(13) -1.0
 C_max work(14) -1.0
 C_max work(15) -1.0
 C_max work(16) -1.0
 C_max work(17) -1.0
 C_max work(18) -1.0
 C_max work(19) -1.0
 C_max work(20) -1.0
 C_max work(21) -1.0
 C_max work(22) -1.0
 C_max work(23) -1.0
 C_max work(24) -1.0
 C_max work(25) -1.0
 C_max work(26) -1.0
 C_max work(27) -1.0
 C_max work(28) -1.0
 C_max work(29) -1.0
 C_max work(30) -1.0
 C_max work(31) -1.0
 C_max work(32) -1.0
 C_max work(33) -1.0
 C_max work(34) -1.0
 C_max work(35) -1.0
 C_max work(36) -1.0
 C_max work(37) -1.0
 C_max work(38) -1.0
 C_max work(39) -1.0
 C_max work(40) -1.0
 C_max work(41) -1.0
 C_max work(42) -1.0
 C_max work(43) -1.0
 C_max work(44) -1.0
 C_max work(45) -1.0
 C_max work(46) -1.0
 C_max work(47) -1.0
 C_max work(48) -1.0
 C_max work(49) -1.0
 C_max work(50) -1.0
 C_max work(51) -1.0
 C_max work(52) -1.0
 C_max work(53) -1.0
 C_max work(54) -1.0
 C_max work(55) -1.0
 C_max traffic(0) -1.0
 C_max traffic(1) -1.0
 C_max traffic(2) -1.0
 C_max traffic(3) -1.0
RHS
 rhs one_device(0) 1.0
 rhs one_device(1) 1.0
 rhs one_device(2) 1.0
 rhs one_device(3) 1.0
 rhs one_device(4) 1.0
 rhs one_device(5) 1.0
 rhs one_device(6) 1.0
 rhs arrivals(1) 53.18605597347624
 rhs arrivals(3) 53.18605597347624
 rhs arrivals(5) 53.18605597347624
 rhs arrivals(7) 53.18605597347624
 rhs arrivals(9) 53.18605597347624
 rhs arrivals(11) 53.18605597347624
 rhs arrivals(13) 53.186055973476186
 rhs arrivals(15) 53.186055973476186
 rhs arrivals(17) 53.186055973476186
 rhs arrivals(19) 53.186055973476186
 rhs arrivals(21) 53.186055973476186
 rhs arrivals(23) 53.186055973476186
 rhs work(2) -135.25913486093197
 rhs work(3) -135.25913486093197
 rhs work(4) -270.51826972186393
 rhs work(5) -270.51826972186393
 rhs work(6) -405.7774045827959
 rhs work(7) -405.7774045827959
 rhs work(8) -541.0365394437279
 rhs work(9) -541.0365394437279
 rhs work(10) -676.2956743046599
 rhs work(11) -676.2956743046599
 rhs work(12) -811.5548091655918
 rhs work(13) -811.5548091655918
 rhs work(14) -135.25913486093197
 rhs work(15) -135.25913486093197
 rhs work(16) -270.51826972186393
 rhs work(17) -270.51826972186393
 rhs work(18) -405.7774045827959
 rhs work(19) -405.7774045827959
 rhs work(20) -541.0365394437279
 rhs work(21) -541.0365394437279
 rhs work(22) -676.2956743046598
 rhs work(23) -676.2956743046598
 rhs work(24) -811.5548091655919
 rhs work(25) -811.5548091655919
 rhs work(26) -270.51826972186393
 rhs work(27) -270.51826972186393
 rhs work(28) -405.7774045827959
 rhs work(29) -405.7774045827959
 rhs work(30) -541.0365394437279
 rhs work(31) -541.0365394437279
 rhs work(32) -676.2956743046598
 rhs work(33) -676.2956743046598
 rhs work(34) -811.5548091655918
 rhs work(35) -811.5548091655918
 rhs work(36) -405.7774045827959
 rhs work(37) -405.7774045827959
 rhs work(38) -541.0365394437279
 rhs work(39) -541.0365394437279
 rhs work(40) -676.2956743046598
 rhs work(41) -676.2956743046598
 rhs work(42) -811.5548091655918
 rhs work(43) -811.5548091655918
 rhs work(44) -541.0365394437279
 rhs work(45) -541.0365394437279
 rhs work(46) -676.2956743046598
 rhs work(47) -676.2956743046598
 rhs work(48) -811.5548091655918
 rhs work(49) -811.5548091655918
 rhs work(50) -676.2956743046599
 rhs work(51) -676.2956743046599
 rhs work(52) -811.5548091655919
 rhs work(53) -811.5548091655919
 rhs work(54) -811.5548091655918
 rhs work(55) -811.5548091655918
 rhs traffic(0) -270.51826972186393
 rhs traffic(1) -270.51826972186393
 rhs traffic(2) -270.51826972186393
 rhs traffic(3) -270.51826972186393
BOUNDS
 LO bnd x(conv1,gpu) 0.0
 UP bnd x(conv1,gpu) 1.0
 LO bnd x(conv1,tpu) 0.0
 UP bnd x(conv1,tpu) 1.0
 LO bnd x(conv2,gpu) 0.0
 UP bnd x(conv2,gpu) 1.0
 LO bnd x(conv2,tpu) 0.0
 UP bnd x(conv2,tpu) 1.0
 LO bnd x(conv3,gpu) 0.0
 UP bnd x(conv3,gpu) 1.0
 LO bnd x(conv3,tpu) 0.0
 UP bnd x(conv3,tpu) 1.0
 LO bnd x(conv4,gpu) 0.0
 UP bnd x(conv4,gpu) 1.0
 LO bnd x(conv4,tpu) 0.0
 UP bnd x(conv4,tpu) 1.0
 LO bnd x(conv5,gpu) 0.0
 UP bnd x(conv5,gpu) 1.0
 LO bnd x(conv5,tpu) 0.0
 UP bnd x(conv5,tpu) 1.0
 LO bnd x(conv6,gpu) 0.0
 UP bnd x(conv6,gpu) 1.0
 LO bnd x(conv6,tpu) 0.0
 UP bnd x(conv6,tpu) 1.0
 LO bnd x(conv7,gpu) 0.0
 UP bnd x(conv7,gpu) 1.0
 LO bnd x(conv7,tpu) 0.0
 UP bnd x(conv7,tpu) 1.0
 LO bnd z(conv1,conv2,gpu,gpu) 0.0
 UP bnd z(conv1,conv2,gpu,gpu) 1.0
 LO bnd z(conv1,conv2,gpu,tpu) 0.0
 UP bnd z(conv1,conv2,gpu,tpu) 1.0
 LO bnd z(conv1,conv2,tpu,gpu) 0.0
 UP bnd z(conv1,conv2,tpu,gpu) 1.0
 LO bnd z(conv1,conv2,tpu,tpu) 0.0
 UP bnd z(conv1,conv2,tpu,tpu) 1.0
 LO bnd z(conv2,conv3,gpu,gpu) 0.0
 UP bnd z(conv2,conv3,gpu,gpu) 1.0
 LO bnd z(conv2,conv3,gpu,tpu) 0.0
 UP bnd z(conv2,conv3,gpu,tpu) 1.0
 LO bnd z(conv2,conv3,tpu,gpu) 0.0
 UP bnd z(conv2,conv3,tpu,gpu) 1.0
 LO bnd z(conv2,conv3,tpu,tpu) 0.0
 UP bnd z(conv2,conv3,tpu,tpu) 1.0
 LO bnd z(conv3,conv4,gpu,gpu) 0.0
 UP bnd z(conv3,conv4,gpu,gpu) 1.0
 LO bnd z(conv3,conv4,gpu,tpu) 0.0
 UP bnd z(conv3,conv4,gpu,tpu) 1.0
 LO bnd z(conv3,conv4,tpu,gpu) 0.0
 UP bnd z(conv3,conv4,tpu,gpu) 1.0
 LO bnd z(conv3,conv4,tpu,tpu) 0.0
 UP bnd z(conv3,conv4,tpu,tpu) 1.0
 LO bnd z(conv4,conv5,gpu,gpu) 0.0
 UP bnd z(conv4,conv5,gpu,gpu) 1.0
 LO bnd z(conv4,conv5,gpu,tpu) 0.0
 UP bnd z(conv4,conv5,gpu,tpu) 1.0
 LO bnd z(conv4,conv5,tpu,gpu) 0.0
 UP bnd z(conv4,conv5,tpu,gpu) 1.0
 LO bnd z(conv4,conv5,tpu,tpu) 0.0
 UP bnd z(conv4,conv5,tpu,tpu) 1.0
 LO bnd z(conv5,conv6,gpu,gpu) 0.0
 UP bnd z(conv5,conv6,gpu,gpu) 1.0
 LO bnd z(conv5,conv6,gpu,tpu) 0.0
 UP bnd z(conv5,conv6,gpu,tpu) 1.0
 LO bnd z(conv5,conv6,tpu,gpu) 0.0
 UP bnd z(conv5,conv6,tpu,gpu) 1.0
 LO bnd z(conv5,conv6,tpu,tpu) 0.0
 UP bnd z(conv5,conv6,tpu,tpu) 1.0
 LO bnd z(conv6,conv7,gpu,gpu) 0.0
 UP bnd z(conv6,conv7,gpu,gpu) 1.0
 LO bnd z(conv6,conv7,gpu,tpu) 0.0
 UP bnd z(conv6,conv7,gpu,tpu) 1.0
 LO bnd z(conv6,conv7,tpu,gpu) 0.0
 UP bnd z(conv6,conv7,tpu,gpu) 1.0
 LO bnd z(conv6,conv7,tpu,tpu) 0.0
 UP bnd z(conv6,conv7,tpu,tpu) 1.0
 LO bnd S(conv1) 0.0
 UP bnd S(conv1) 53.18605597347623
 LO bnd S(conv2) 135.25913486093197
 UP bnd S(conv2) 188.4451908344082
 LO bnd S(conv3) 270.51826972186393
 UP bnd S(conv3) 323.7043256953402
 LO bnd S(conv4) 405.7774045827959
 UP bnd S(conv4) 458.96346055627214
 LO bnd S(conv5) 541.0365394437279
 UP bnd S(conv5) 594.222595417204
 LO bnd S(conv6) 676.2956743046599
 UP bnd S(conv6) 729.4817302781361
 LO bnd S(conv7) 811.5548091655918
 UP bnd S(conv7) 864.740865139068
 LO bnd T(conv1,gpu) 135.25913486093197
 UP bnd T(conv1,gpu) 188.4451908344082
 LO bnd T(conv1,tpu) 135.25913486093197
 UP bnd T(conv1,tpu) 188.4451908344082
 LO bnd T(conv2,gpu) 270.51826972186393
 UP bnd T(conv2,gpu) 323.7043256953402
 LO bnd T(conv2,tpu) 270.51826972186393
 UP bnd T(conv2,tpu) 323.7043256953402
 LO bnd T(conv3,gpu) 405.7774045827959
 UP bnd T(conv3,gpu) 458.96346055627214
 LO bnd T(conv3,tpu) 405.7774045827959
 UP bnd T(conv3,tpu) 458.96346055627214
 LO bnd T(conv4,gpu) 541.0365394437279
 UP bnd T(conv4,gpu) 594.222595417204
 LO bnd T(conv4,tpu) 541.0365394437279
 UP bnd T(conv4,tpu) 594.222595417204
 LO bnd T(conv5,gpu) 676.2956743046599
 UP bnd T(conv5,gpu) 729.4817302781361
 LO bnd T(conv5,tpu) 676.2956743046599
 UP bnd T(conv5,tpu) 729.4817302781361
 LO bnd T(conv6,gpu) 811.5548091655918
 UP bnd T(conv6,gpu) 864.740865139068
 LO bnd T(conv6,tpu) 811.5548091655918
 UP bnd T(conv6,tpu) 864.740865139068
 LO bnd C_max 946.8139440265238
 UP bnd C_max 1000.0
ENDATA
